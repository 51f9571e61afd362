package deploy

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// watchEvery is how often the Sentinels are asked.
const watchEvery = 100 * time.Millisecond

// WatchFailOvers calls changed when a Sentinel names another primary than before, until
// ctx ends: on a busy machine they fail over though nothing was done to a server.
func (d *Deployment) WatchFailOvers(ctx context.Context, changed func()) {
	if d.Sentinel == nil {
		return
	}
	named := make([]string, len(d.Sentinel.Sentinels))
	for {
		for i, s := range d.Sentinel.Sentinels {
			primary, err := primaryBy(ctx, s.Addr())
			if err != nil {
				continue // it may be killed
			}
			if named[i] != "" && named[i] != primary {
				changed()
			}
			named[i] = primary
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

// primaryBy asks a Sentinel on a connection of its own, since faults may end it meanwhile.
func primaryBy(ctx context.Context, addr string) (string, error) {
	conn, err := (&net.Dialer{Timeout: watchEvery}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "SENTINEL GET-MASTER-ADDR-BY-NAME %s\r\n",
		redistest.MasterSet); err != nil {
		return "", err
	}
	// An array of the host and the port.
	var n, hostLen, portLen int
	var host, port string
	if _, err := fmt.Fscanf(conn, "*%d\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", &n, &hostLen, &host,
		&portLen, &port); err != nil {
		return "", fmt.Errorf("deploy: what a Sentinel answered: %w", err)
	}
	return net.JoinHostPort(host, port), nil
}
