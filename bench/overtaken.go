package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// overtaking is who overtook whom in all rounds of one contestant, in %.
type overtaking struct {
	asked, arrived sample // from the call, from the request's arrival at the server
	grants, found  int    // and of how many the request was seen
}

// overtaken counts the grants that went to a member while another, that had come over a millisecond
// earlier, still waited. A member's instant is that of its call, which its process may send late on
// a busy machine, and that at which the server reads its request, as MONITOR shows it.
func overtaken(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	members, span, rounds := 50, 2*time.Second, o.rounds
	if o.short {
		members, span, rounds = 5, 200*time.Millisecond, 1
	}
	pool, err := startPool(ctx, members)
	if err != nil {
		return nil, err
	}
	defer pool.close()
	who := []string{lockbeat, ring, redsyncRueidis, peer}
	all := make(map[string]*overtaking, len(who))
	for round := range rounds {
		for _, one := range who {
			if all[one] == nil {
				all[one] = new(overtaking)
			}
			if one != lockbeat && round >= peerRounds {
				continue
			}
			j := joining{
				Who: one, Addr: server.Addr(), Name: fmt.Sprintf("order:%s:%d", one, round),
				Of: members, TTL: cycleTTL, Warm: span / 4, Span: span, Note: true,
			}
			if err := all[one].round(ctx, pool, server, j); err != nil {
				return nil, fmt.Errorf("%s: %w", one, err)
			}
		}
	}
	t := table{{
		"", "overtaken, from arrival at the server", "worst round", "from the call", "grants",
		"their requests seen",
	}}
	for _, one := range who {
		v := all[one]
		arrived, worst := "-", "-"
		if v.found > 0 { // whose connections have names
			arrived = fmt.Sprintf("%.2f %%", v.arrived.median())
			worst = fmt.Sprintf("%.2f %%", v.arrived.worst())
		}
		t.add(one, arrived, worst, fmt.Sprintf("%.2f %%", v.asked.median()),
			fmt.Sprint(v.grants), fmt.Sprint(v.found))
	}
	out := &printer{w: w}
	out.printf("\n## Overtaken by over %v: %d members in as many processes (medians of %d rounds "+
		"of %v)\n\n%s", contendSlack, members, rounds, span, t)
	const most, seenLeast = 0.5, 0.99
	ours := all[lockbeat]
	return []target{
		atMost(fmt.Sprintf("crowd of %d, overtaken by > 1 ms, %%", members),
			ours.arrived.median(), most),
		atLeast(fmt.Sprintf("crowd of %d, requests seen of those granted", members),
			float64(ours.found)/float64(ours.grants), seenLeast),
	}, out.err
}

func (v *overtaking) round(
	ctx context.Context, pool *memberPool, server *redistest.Server, j joining,
) error {
	spy, err := watchServer(server.Addr())
	if err != nil {
		return err
	}
	defer spy.close()
	taken, err := pool.round(ctx, j, []*redistest.Server{server})
	if err != nil {
		return err
	}
	if taken.Err != "" {
		return errors.New(taken.Err)
	}
	arrivals, err := spy.arrivals()
	if err != nil {
		return err
	}
	v.asked.add(100 * inverted(taken.Grants, contendSlack))
	came := slices.Clone(taken.Grants)
	for i, g := range came {
		v.grants++
		of := arrivals[memberName(taken.Members[i])]
		first, _ := slices.BinarySearch(of, g.Asked)
		if first < len(of) && of[first] < g.Got {
			came[i].Asked = of[first]
			v.found++
		}
	}
	v.arrived.add(100 * inverted(came, contendSlack))
	return nil
}

// memberName is what the connections of a member are called at the server.
func memberName(number int) string { return "member-" + strconv.Itoa(number) }

// spy hears of every command that a server reads, and from whom.
type spy struct {
	conn  net.Conn
	lines chan []string
}

// watchServer sends MONITOR to a server. Connections that are older have no name.
func watchServer(addr string) (*spy, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	in := bufio.NewReaderSize(conn, 1<<20)
	if _, err := in.ReadString('\n'); err != nil { // +OK
		return nil, errors.Join(err, conn.Close())
	}
	s := &spy{conn, make(chan []string, 1)}
	go func() {
		var lines []string
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				s.lines <- lines
				return
			}
			if !strings.Contains(line, " lua] ") {
				lines = append(lines, line)
			}
		}
	}()
	return s, nil
}

func (s *spy) close() { _ = s.conn.Close() } // it is only read from

// +1732270000.123456 [0 127.0.0.1:50000] "EVALSHA" "..."
var monitored = regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ (\S+)\] "(\w+)"(.*)`)

// arrivals ends the watch. It returns when requests came from the connections of each name, by the
// machine's monotonic clock.
func (s *spy) arrivals() (map[string][]int64, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return nil, err
	}
	offset := time.Now().UnixNano() - monotonic()
	names, came := make(map[string]string), make(map[string][]int64)
	for _, line := range <-s.lines {
		part := monitored.FindStringSubmatch(line)
		if part == nil {
			continue
		}
		seconds, errS := strconv.ParseInt(part[1], 10, 64)
		us, errU := strconv.ParseInt(part[2], 10, 64)
		if err := errors.Join(errS, errU); err != nil {
			return nil, fmt.Errorf("MONITOR: %w", err)
		}
		switch from := part[3]; strings.ToUpper(part[4]) {
		case "HELLO", "CLIENT":
			if _, name, ok := strings.Cut(strings.ToUpper(part[5]), `"SETNAME" "`); ok {
				names[from], _, _ = strings.Cut(strings.ToLower(name), `"`)
			}
		case "EVALSHA", "EVAL", "SET":
			name := names[from]
			came[name] = append(came[name], seconds*1e9+us*1e3-offset)
		}
	}
	return came, nil
}
