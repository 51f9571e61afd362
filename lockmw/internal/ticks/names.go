package ticks

// What the locks' names of each kind of scheduled work begin with. They differ, so that a job is
// not kept waiting by, say, an elector of the same name, which has its lock for as long as its
// process lives. To change one is to let old and new programs run the same tick twice.
const (
	OfJob       = "cron"            // a job of package cronmw
	OfLocker    = "gocron"          // a job of gocron under gocronmw's locker
	OfElector   = "gocron-elector"  // the lead of gocronmw's elector
	OfScheduler = "asynq-scheduler" // the lead of asynqmw's RunScheduler
)
