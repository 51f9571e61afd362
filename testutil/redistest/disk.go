package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FillDisk has the server fail to write a snapshot, as it does on a full disk,
// and returns once it answers writes and PING by -MISCONF, which is the default
// of Redis, until FreeDisk. It panics while the server is killed.
func (s *Server) FillDisk() error {
	// No user, not even root, can put a file in the place of a folder.
	path := s.snapshotPath()
	if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	if err := s.Do("CONFIG", "SET", "save", "3600 1").Error(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return s.snapshot("err")
}

// FreeDisk ends FillDisk.
func (s *Server) FreeDisk() error {
	if err := os.Remove(s.snapshotPath()); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return s.snapshot("ok")
}

func (s *Server) snapshotPath() string { return filepath.Join(s.dir, "dump.rdb") }

// snapshot has a snapshot written, and returns once it has become what is
// expected.
func (s *Server) snapshot(want string) error {
	if err := s.Do("BGSAVE").Error(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	for began := time.Now(); time.Since(began) < startTimeout; <-time.After(pollEvery) {
		info, err := s.Do("INFO", "persistence").ToString()
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		if strings.Contains(info, "rdb_bgsave_in_progress:0") &&
			strings.Contains(info, "rdb_last_bgsave_status:"+want) {
			return nil
		}
	}
	return fmt.Errorf("redistest: no snapshot has ended with %q within %v", want, startTimeout)
}
