package cronmw_test

const nodeEnv = "LOCKBEAT_CRON_NODE"

func beNode(string) int { return 0 }
