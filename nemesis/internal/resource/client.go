package resource

import (
	"bufio"
	"errors"
	"fmt"
	"net"
)

// ErrStale means that the token is below the highest that the resource has seen.
var ErrStale = errors.New("resource: the token is too low")

// Client is one goroutine's connection to a [Server].
type Client struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to a server. The caller must Close the client.
func Dial(path string) (*Client, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("resource: %w", err)
	}
	return &Client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// Read returns a counter's value. The error is [ErrStale] if the token is too low.
func (c *Client) Read(name string, token int64) (int64, error) {
	return c.ask(query{verbRead, name, token, 0})
}

// Write sets a counter's value. The error is as Read's.
func (c *Client) Write(name string, token, value int64) error {
	_, err := c.ask(query{verbWrite, name, token, value})
	return err
}

func (c *Client) ask(q query) (int64, error) {
	if _, err := fmt.Fprintf(c.conn, queryFormat+"\n", q.verb, q.name, q.token,
		q.value); err != nil {
		return 0, fmt.Errorf("resource: %w", err)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("resource: %w", err)
	}
	var a answer
	if _, err := fmt.Sscanf(line, answerFormat, &a.ok, &a.value); err != nil {
		return 0, fmt.Errorf("resource: %q: %w", line, err)
	}
	if !a.ok {
		return 0, fmt.Errorf("%w: %d, after %d", ErrStale, q.token, a.value)
	}
	return a.value, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
