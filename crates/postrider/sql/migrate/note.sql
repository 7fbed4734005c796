insert into {schema}.migration (version, name) values ({version}, '{name}');
