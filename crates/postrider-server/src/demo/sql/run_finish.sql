-- Notes the end of the run, the first time only.
update postrider_demo_shop.run set finished_at = clock_timestamp() where finished_at is null
