begin;
insert into ceiling.orders(status,amount) values('placed',1);
select {schema}.record('order.placed','order:1','{"a":1,"b":"some thin payload"}');
commit;
