package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"time"
)

// starveFor is the longest that the processor is taken away: others use the machine too.
const starveFor = time.Second

// busyLoop ends by itself soon after, should the parent not be there to kill
// it: ulimit counts seconds of processor time.
const busyLoop = "ulimit -t 2; while :; do :; done"

// starving takes the processor away from all.
func starving() Kind {
	return Kind{
		Name: "starve", Apart: true, Hangs: true, Voids: missed,
		New: func(*Field, *rand.Rand) Fault {
			var busy []*exec.Cmd
			var over *time.Timer
			return Fault{
				What: fmt.Sprintf("%d busy processes", 4*runtime.NumCPU()),
				Inject: func() error {
					var err error
					for range 4 * runtime.NumCPU() {
						c := exec.Command("sh", "-c", busyLoop)
						if failed := c.Start(); failed != nil {
							err = errors.Join(err, failed)
							continue
						}
						busy = append(busy, c)
					}
					started := busy
					over = time.AfterFunc(starveFor, func() { killAll(started) })
					return err
				},
				Heal: func() error {
					over.Stop()
					killAll(busy)
					for _, c := range busy {
						_ = c.Wait() // killed, as it says
					}
					return nil
				},
			}
		},
	}
}

func killAll(commands []*exec.Cmd) {
	for _, c := range commands {
		_ = c.Process.Kill() // it may have been killed already
	}
}
