-- Sets the globs in force. $1 id, $2 globs. No row: they were so already.
update {schema}.subscription s set globs = $2 where s.id = $1 and s.globs is distinct from $2
returning s.id
