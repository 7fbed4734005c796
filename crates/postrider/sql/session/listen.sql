listen "{channel_name}"
