-- A connection that lives long and waits: nothing may end it for being idle. When this end is gone
-- without a word, the server must learn of it soon: the locks of the connection are held until then.
set idle_in_transaction_session_timeout = 0; set statement_timeout = 0; set lock_timeout = 0;
set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3;
set tcp_user_timeout = '30s';
