-- A connection that lives long and waits: nothing may end it for being idle.
set idle_in_transaction_session_timeout = 0; set statement_timeout = 0; set lock_timeout = 0;
