package doctor

import (
	"context"
	"strconv"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
)

// persistence says what a restart loses, and when the last one was. A holder
// whose lock was lost hears of it at its next heartbeat; until then another may
// have it.
func (s *server) persistence(ctx context.Context) finding {
	info, err := s.info(ctx)
	if err != nil {
		return missed("persistence", "+info", err)
	}
	f := s.kept(ctx, info)
	up := time.Duration(number(info["uptime_in_seconds"])) * time.Second
	f.Found += "; it is up for " + out.Duration(up)
	return f
}

func (s *server) kept(ctx context.Context, info map[string]string) finding {
	const check = "persistence"
	save, known := s.setting(ctx, "save"), s.setting(ctx, "maxmemory-policy") != ""
	switch {
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		return finding{
			Check: check, Status: failure,
			Found:  "the server can't write its append-only file, and refuses locks",
			Change: "see the server's log; its disk may be full",
		}
	case info["rdb_last_bgsave_status"] == "err" && (save != "" || !known) &&
		s.setting(ctx, "stop-writes-on-bgsave-error") != "no":
		return finding{
			Check: check, Status: failure,
			Found: "the last snapshot failed, by which Redis refuses locks (-MISCONF) until one " +
				"succeeds",
			Change: "see the server's log; its disk may be full. Then BGSAVE; or CONFIG SET " +
				"stop-writes-on-bgsave-error no, if snapshots don't matter",
		}
	case info["aof_enabled"] == "1":
		return s.appendOnly(ctx)
	}
	f := finding{
		Check: check, Status: warning,
		Change: "set appendonly yes, and appendfsync always if a crash of the machine matters; " +
			"or fence what must not happen twice",
	}
	switch last, _ := strconv.ParseInt(info["rdb_last_save_time"], 10, 64); {
	case known && save == "":
		f.Found = "none: a restart loses all locks, and others may have them while their " +
			"operations still run, for a heartbeat"
	case !known || last == 0:
		f.Found = "no append-only file: a restart loses the locks granted since the last " +
			"snapshot, or all of them"
	default:
		f.Found = "snapshots only, the last " + out.Duration(time.Since(time.Unix(last, 0))) +
			" ago: a restart loses the locks granted since the last"
	}
	return f
}

// appendOnly is persistence with an append-only file.
func (s *server) appendOnly(ctx context.Context) finding {
	f := finding{Check: "persistence", Found: "append-only file, "}
	switch s.setting(ctx, "appendfsync") {
	case "always":
		f.Found += "appendfsync always: a restart loses nothing"
	case "everysec":
		f.Found += "appendfsync everysec: a crash of the machine loses up to 2 s of grants"
	case "no":
		f.Found += "appendfsync no: a crash of the machine loses what the system had not " +
			"written, often 30 s of grants"
		f.Status, f.Change = warning, "set appendfsync everysec or always"
	default:
		f.Found += "of which a crash of the machine loses nothing to some seconds, by appendfsync"
		f.Status, f.Change = unknown, "to see appendfsync, grant +config|get, which shows the "+
			"server's passwords too"
	}
	return f
}
