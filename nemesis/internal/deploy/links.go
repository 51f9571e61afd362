package deploy

import (
	"errors"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Links are one worker's: a proxy before each server, in the order of All.
type Links []*proxy.Proxy

// Link puts proxies before all servers. The caller must Close them.
func (d *Deployment) Link() (Links, error) {
	var links Links
	for _, s := range d.All() {
		p, err := proxy.New(s.Addr())
		if err != nil {
			links.Close()
			return nil, err
		}
		links = append(links, p)
	}
	return links, nil
}

// Close ends the links.
func (l Links) Close() {
	for _, p := range l {
		p.Close()
	}
}

// Spec is what a worker needs to connect by its links.
type Spec struct {
	Kind string
	// Addrs are those that it is to know: of servers, or of Sentinels.
	Addrs []string
	// By is the address to dial for each address of a server.
	By map[string]string
	// MasterSet is the name that Sentinels know the servers by, or "".
	MasterSet string
	Quorum    bool
}

// Spec describes the deployment to the worker that has the links.
func (d *Deployment) Spec(links Links) (Spec, error) {
	all := d.All()
	if len(links) != len(all) {
		return Spec{}, errors.New("deploy: there must be one link for each server")
	}
	s := Spec{Kind: d.Kind, By: make(map[string]string), Quorum: d.Quorum}
	for i, server := range all {
		s.By[server.Addr()] = links[i].Addr()
	}
	known := d.Servers
	if d.Sentinel != nil {
		known, s.MasterSet = d.Sentinel.Sentinels, redistest.MasterSet
	}
	for _, server := range known {
		s.Addrs = append(s.Addrs, server.Addr())
	}
	return s, nil
}
