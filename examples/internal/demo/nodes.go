package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// childEnv makes the program a node of a story that another process tells. It
// holds a part as JSON.
const childEnv = "QUICKSTART_NODE"

// part is what the process of a node is told.
type part[Role any] struct {
	Name, Prefix string
	Addr         string
	Embedded     bool
	TTL          time.Duration
	Role         Role // the story's affair
}

// Word is what a node tells the story.
type Word struct {
	Node   string
	What   string // "" when the process of the node has ended
	Number int64
	Note   string
}

// Node is what a process of its own has to work with. It is the observer of its
// keeper.
type Node struct {
	renewer.NopObserver
	Name   string
	Keeper *renewer.Keeper

	mu  sync.Mutex
	out *json.Encoder
}

// Tell tells the story what happens. It may be called concurrently.
func (n *Node) Tell(what string, number int64, note string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.out.Encode(Word{n.Name, what, number, note}) // a story that has ended does not listen
}

// Ran tells the story what has become of a tick. Your own program would log, by
// renewer.NewLogObserver.
func (n *Node) Ran(_ context.Context, e renewer.Run) {
	if e.Outcome != renewer.OutcomeAdded {
		n.Tell(string(e.Outcome), e.Due.UnixMilli(), "")
	}
}

// Child plays a node if this process was started to be one, and does not return
// then. Call it first of all, in TestMain too. act must return when its context
// ends.
func Child[Role any](act func(context.Context, *Node, Role) error) {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var p part[Role]
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.play(act)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p part[Role]) play(act func(context.Context, *Node, Role) error) error {
	option := rueidis.ClientOption{
		InitAddress: []string{p.Addr}, ForceSingleClient: true, DisableCache: true,
		AlwaysRESP2: p.Embedded,
	}
	store, err := connect(redisstore.Deployment{Option: option, Prefix: p.Prefix, TTL: p.TTL})
	if err != nil {
		return err
	}
	defer store.Close()
	n := &Node{Name: p.Name, out: json.NewEncoder(os.Stdout)}
	k, err := renewer.New(store, renewer.Config{
		TTL: p.TTL, Node: p.Name, Observer: n, Log: renewer.Silent,
		FailOver: 2 * time.Second, // no story waits for long
	})
	if err != nil {
		return err
	}
	n.Keeper = k
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the story ends, or its process
		cancel()
	}()
	err = act(ctx, n, p.Role)
	over, stop := context.WithTimeout(context.Background(), p.TTL)
	defer stop()
	return errors.Join(err, k.Shutdown(over))
}

// Nodes are the processes of a story.
type Nodes struct {
	Words chan Word // what they tell, until the demo ends

	demo    *Demo
	server  *Redis
	addr    string
	process map[string]*os.Process
	over    <-chan struct{} // closed when the story does not listen any more
	leave   context.CancelFunc
}

// NewNodes returns none yet. They reach the first server by one link, which
// [Demo.Stop] cuts.
func (d *Demo) NewNodes() (*Nodes, error) {
	_, link, err := d.Link(0)
	if err != nil {
		return nil, err
	}
	ctx, leave := context.WithCancel(context.Background())
	return &Nodes{
		make(chan Word), d, d.Servers[0], link.Addr(), make(map[string]*os.Process),
		ctx.Done(), leave,
	}, nil
}

// Start starts a node in a process of its own, with locks of the given TTL.
func (n *Nodes) Start(ctx context.Context, name string, ttl time.Duration, role any) error {
	env, err := json.Marshal(part[any]{
		Name: name, Prefix: n.demo.Prefix(name), Addr: n.addr,
		Embedded: n.server.option.AlwaysRESP2, TTL: ttl, Role: role,
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(env)), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	n.process[name] = cmd.Process
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var w Word
		for words := json.NewDecoder(out); words.Decode(&w) == nil; w = (Word{}) {
			n.hear(w)
		}
		_ = cmd.Wait() // how it ended is the story's affair
		n.hear(Word{Node: name})
	}()
	n.demo.AtEnd(func(ctx context.Context) error {
		n.leave()
		_ = stdin.Close() // of one that has ended already
		_, err := Wait(ctx, ended)
		if err != nil {
			n.Kill(name)
		}
		return err
	})
	return nil
}

func (n *Nodes) hear(w Word) {
	select {
	case n.Words <- w:
	case <-n.over:
	}
}

// Die ends the process that calls it at once, as kill -9 does. It does not
// return before ctx ends, unless it fails.
func Die(ctx context.Context) error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return err
	}
	<-ctx.Done() // a kill takes a moment
	return context.Cause(ctx)
}

// Kill ends the process of a node at once, as kill -9 does.
func (n *Nodes) Kill(name string) { _ = n.process[name].Kill() } // it may have ended already
