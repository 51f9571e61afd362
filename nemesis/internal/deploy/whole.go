package deploy

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// wholeTime is how long Sentinels may take to put everything right.
const wholeTime = 30 * time.Second

// errSplit means that both servers think that they are the primary, or that none does.
var errSplit = errors.New("deploy: the Sentinels have not made one server the primary and the " +
	"other its replica")

// awaitOnePrimary returns once the Sentinels agree, and the former primary knows that it is one no
// more: until then it goes on granting locks to those who have not heard of the fail-over either.
func (d *Deployment) awaitOnePrimary() error {
	for begun := time.Now(); ; <-time.After(20 * time.Millisecond) {
		err := d.Sentinel.AwaitWhole()
		if err == nil {
			err = d.onePrimary()
		}
		if err == nil || time.Since(begun) > wholeTime {
			return err
		}
	}
}

func (d *Deployment) onePrimary() error {
	primary, err := d.Sentinel.Primary()
	if err != nil {
		return err
	}
	for _, s := range d.Servers {
		role, err := roleOf(s)
		if err != nil {
			return err
		}
		if (role == "master") != (s == primary) {
			return fmt.Errorf("%w: %s is %s", errSplit, s.Addr(), role)
		}
	}
	return nil
}

func roleOf(s *redistest.Server) (string, error) {
	parts, err := s.Do("ROLE").ToArray()
	if err != nil {
		return "", err
	}
	return parts[0].ToString()
}
