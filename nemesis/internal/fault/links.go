package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
)

// slow is a delay, each way, with which requests take a tenth of a second: long, and still in time.
const slow = 50 * time.Millisecond

// links are faults of the network between workers and servers.
func links() []Kind {
	return []Kind{
		linkKind("blackhole", func(p *proxy.Proxy) {
			p.Blackhole(proxy.Both)
		}, (*proxy.Proxy).Heal),
		linkKind("blackhole-reset", func(p *proxy.Proxy) {
			p.Blackhole(proxy.Both)
		}, (*proxy.Proxy).HealReset),
		linkKind("requests-lost", func(p *proxy.Proxy) {
			p.Blackhole(proxy.Up)
		}, (*proxy.Proxy).HealReset),
		linkKind("requests-late", func(p *proxy.Proxy) {
			p.Blackhole(proxy.Up)
		}, (*proxy.Proxy).Heal),
		linkKind("replies-late", func(p *proxy.Proxy) {
			p.Blackhole(proxy.Down)
		}, (*proxy.Proxy).Heal),
		linkKind("delay", func(p *proxy.Proxy) {
			p.Delay(slow)
		}, func(p *proxy.Proxy) { p.Delay(0) }),
		linkKind("reset", (*proxy.Proxy).Reset, func(*proxy.Proxy) {}),
		linkKind("refused", func(p *proxy.Proxy) {
			p.Refuse(true)
			p.Reset()
		}, func(p *proxy.Proxy) { p.Refuse(false) }),
		linkKind("replies-dropped", func(p *proxy.Proxy) {
			p.DropReply(20, proxy.ThenReset)
		}, func(p *proxy.Proxy) { p.DropReply(0, proxy.ThenReset) }),
		linkKind("replies-muted", func(p *proxy.Proxy) { p.DropReply(5, proxy.ThenMute) },
			func(p *proxy.Proxy) { p.DropReply(0, proxy.ThenMute); p.Reset() }),
	}
}

func linkKind(name string, inject, heal func(*proxy.Proxy)) Kind {
	return Kind{
		Name: name, Apart: true,
		New: func(f *Field, dice *rand.Rand) Fault {
			hit, where := f.someLinks(dice)
			return Fault{
				What: name + " between " + where,
				Inject: func() error {
					for _, p := range hit {
						inject(p)
					}
					return nil
				},
				Heal: func() error {
					for _, p := range hit {
						heal(p)
					}
					return nil
				},
			}
		},
	}
}

// someLinks picks those of one worker, or of one server, or all, or any.
func (f *Field) someLinks(dice *rand.Rand) (hit []*proxy.Proxy, where string) {
	worker, who := f.worker(dice)
	server := dice.IntN(len(f.Links[worker]))
	switch dice.IntN(4) {
	case 0:
		return f.Links[worker], who + " and all servers"
	case 1:
		for _, l := range f.Links {
			hit = append(hit, l[server])
		}
		return hit, fmt.Sprintf("all workers and server %d", server+1)
	case 2:
		for _, l := range f.Links {
			hit = append(hit, l...)
		}
		return hit, "all workers and all servers"
	default:
		for _, l := range f.Links {
			for _, p := range l {
				if dice.IntN(2) == 0 {
					hit = append(hit, p)
				}
			}
		}
		if hit == nil {
			hit = append(hit, f.Links[worker][server])
		}
		return hit, "some workers and servers"
	}
}
