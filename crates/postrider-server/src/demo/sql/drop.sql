-- Both schemas of the demo. Called only after their marks were seen.
set lock_timeout = '20s';
drop schema if exists postrider_demo cascade;
drop schema if exists postrider_demo_shop cascade;
reset lock_timeout;
