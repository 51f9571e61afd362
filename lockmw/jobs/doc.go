// Package jobs is what adapters of job frameworks have in common: a job runs
// under a lock that its function never names. A job whose lock another caller
// has keeps no worker, uses up no attempt, and is called when its turn comes.
// Packages lockmw/asynq and lockmw/rivermw stand on it;
// docs/write-an-adapter.md shows how to write another.
//
//	run := jobs.Wrap(keeper, func(e Email) string { return lockmw.Key("user", e.UserID) },
//		sendEmail, jobs.InLine(queue))
//
//	result := run(ctx, jobs.Delivery{Kind: "email", Queue: q, ID: id}, email) // in a worker
//
// The adapter decodes the arguments, calls the function that [Wrap] returns for
// each delivery, and does with the job what the [Result] says. It has no
// locking of its own.
//
// # Outcomes
//
// The first row that fits counts.
//
//	the job                                     outcome    what the adapter does
//	------------------------------------------  ---------  ------------------------------------
//	has run, and was replaced meanwhile         Done       drops it; tells of an error, if any
//	has run                                     Ran        returns its error
//	was replaced as it waited, or skipped       Done       drops it
//	has no usable lock's name                   Unusable   fails it for good
//	can't run with its options: ErrConfig       Failed     returns the error, which counts
//	was given up by its framework meanwhile     Ended      puts it back, uncounted, if it is asked
//	has a place in line, and can't go back      Copied     drops it; a copy has its place
//	has a place in line                         Back       puts it back, uncounted
//	may wait for a busy lock in its worker      -          nothing: it waits, and asks again
//	can go back                                 Back       puts it back, uncounted
//	can't: a copy of it can                     Copied     drops it
//	can't, and may not wait in its worker       Failed     lets it fail
//	can't, and has time left                    -          nothing: it asks again after a pause
//	can't, and has no time left                 Failed     lets it fail
//
// A job can't go back if its framework drops it whatever error it returns: see
// [Delivery.Last]. If no copy can be made as long as the job has time, Copied
// becomes Failed.
//
// # What to watch out for
//
//   - A job waits in its worker for an eighth of its context's time at most: its work begins with
//     seven eighths, or does not begin.
//   - The lock is held until the function returns, even if its framework has given it up
//     meanwhile. So a job never overlaps its own retry.
package jobs
