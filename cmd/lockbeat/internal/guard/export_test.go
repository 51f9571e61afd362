//go:build unix

package guard

import "time"

// Plan is the plan of a guard.
type Plan = plan

// NewPlan returns a plan.
func NewPlan(d Deadline, grace time.Duration) *Plan { return &plan{deadline: d, grace: grace} }

// Renew is what a renewal does.
func (p *Plan) Renew(d Deadline) { p.deadline = d }

// The plan's methods.
var (
	End  = (*plan).end
	Due  = (*plan).due
	Next = (*plan).next
)

// WithEnv sets variables.
var WithEnv = withEnv
