// Package schedulers has what all kinds of scheduled work share: the names of their locks, and how
// long a new leader waits.
package schedulers

// The prefixes of the locks' names, by kind of scheduled work. They differ, so that a job
// does not wait for a scheduler of the same name, which has its lock for as long as its
// process lives. Do not change one: old and new programs would run the same tick twice.
const (
	OfJob       = "cron"            // a job of package cronmw
	OfScheduler = "asynq-scheduler" // the lead of asynqmw's RunScheduler
)
