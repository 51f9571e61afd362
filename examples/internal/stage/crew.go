package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// childEnv makes the program a node of a story that another process tells: it has a part, as JSON.
const childEnv = "LOCKBEAT_EXAMPLE_NODE"

// patience is how long a node tries to connect.
const patience = 5 * time.Second

// part is what a node's process is told.
type part struct {
	Name     string
	Addr     string
	Embedded bool
	Prefix   string
	TTL      time.Duration
	Role     json.RawMessage
}

// Act is what a node does in a process of its own: its role is the story's
// affair, and tell tells the story what happens, as JSON. It ends when ctx does.
type Act func(ctx context.Context, k *renewer.Keeper, name string, role json.RawMessage,
	tell func(any)) error

// Child plays a node if this process was started to be one, and does
// not return then. Call it first of all, in TestMain too.
func Child(act Act) {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := child(text, act); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string, act Act) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	option := rueidis.ClientOption{
		InitAddress: []string{p.Addr}, ForceSingleClient: true,
		DisableCache: true, AlwaysRESP2: p.Embedded,
	}
	n, err := openNode(option, p.Name, p.Prefix, p.TTL, nil)
	for begun := time.Now(); err != nil &&
		time.Since(begun) < patience; n, err = openNode(option, p.Name, p.Prefix, p.TTL, nil) {
		// a machine on which many processes start at once may need more than one attempt
		<-time.After(50 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the story ends, or its process
		cancel()
	}()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	err = act(ctx, n.keeper, p.Name, p.Role, func(word any) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(word) // a story that does not listen any more has ended
	})
	over, stop := context.WithTimeout(context.Background(), p.TTL)
	defer stop()
	if closed := n.close(over); err == nil {
		err = closed
	}
	return err
}

// Word is what a member of the crew has told; Text is nil when its process has ended.
type Word struct {
	Node string
	Text json.RawMessage
}

// Member is a node in a process of its own.
type Member struct {
	Name string

	cmd   *exec.Cmd
	stdin io.Closer
	leave sync.Once
	left  chan struct{} // closed when nobody listens any more
	ended chan struct{}
}

// Join starts a node in a process of its own, with locks of the given TTL. What it
// tells is sent to words, until it is asked to leave, which it is when the story ends.
func (s *Stage) Join(
	ctx context.Context, name string, ttl time.Duration, role any, words chan<- Word,
) (*Member, error) {
	text, err := json.Marshal(role)
	if err != nil {
		return nil, err
	}
	p := part{
		Name: name, Addr: s.option.InitAddress[0], Embedded: s.inside != nil,
		Prefix: s.prefix(name), TTL: ttl, Role: text,
	}
	env, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &Member{
		Name: name, cmd: exec.CommandContext(context.WithoutCancel(ctx), self),
		left: make(chan struct{}), ended: make(chan struct{}),
	}
	m.cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	m.cmd.Stderr = os.Stderr
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(m.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m.say(words, Word{name, slices.Clone(lines.Bytes())})
		}
		_ = m.cmd.Wait() // how it ended is the story's affair
		m.say(words, Word{Node: name})
	}()
	s.AtEnd(m.Leave)
	return m, nil
}

func (m *Member) say(words chan<- Word, w Word) {
	select {
	case words <- w:
	case <-m.left:
	}
}

// Kill ends the node's process at once, as kill -9 does.
func (m *Member) Kill() { _ = m.cmd.Process.Kill() } // one that has ended already is no error here

// Leave asks the node to end, and waits for it.
func (m *Member) Leave(ctx context.Context) error {
	m.leave.Do(func() { close(m.left) })
	_ = m.stdin.Close() // of one that has ended already
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		m.Kill()
		return fmt.Errorf("%s does not end", m.Name)
	}
}
