package grpcmw

import (
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/misuse"
	"github.com/lockbeat/lockbeat/renewer"
)

func newReports(k *renewer.Keeper) misuse.Reports {
	return misuse.Reports{Keeper: k, Doing: "serve gRPC"}
}

// report reports err, with which a call of a method was refused, if a mistake
// in the program lets it name no lock. A status that a key function has chosen
// is none.
func report(r *misuse.Reports, method string, err error) {
	switch {
	case said(err) != nil:
	case errors.Is(err, renewer.ErrConfig):
		r.Config(fmt.Errorf("lockbeat: calls of %s fail: %w", method, err))
	case errors.Is(err, renewer.ErrName):
		r.Unnamed(func() error {
			return fmt.Errorf("lockbeat: calls of %s are answered with InvalidArgument: %w; does "+
				"the request, or its metadata, have what is asked for?", method, err)
		})
	}
}
