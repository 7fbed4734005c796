-- Both schemas of the demo, marked as its own.
create schema postrider_demo;
comment on schema postrider_demo is 'Made by `postrider demo`; dropped at its end.';
create schema postrider_demo_shop;
comment on schema postrider_demo_shop is 'Made by `postrider demo`; dropped at its end.';
