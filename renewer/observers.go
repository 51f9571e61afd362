package renewer

import "context"

// Observers returns an Observer that passes on what it hears to each of these, in order, such as
// logs and traces. Nil ones are left out. The context that one returns is given to the next.
// [Holder.Trace] is the first that is not "".
func Observers(all ...Observer) Observer {
	var both Observer = NopObserver{}
	for _, o := range all {
		if o != nil {
			both = observers{both, o}
		}
	}
	return both
}

// observers are two.
type observers struct{ first, second Observer }

// AcquireStart passes it on.
func (o observers) AcquireStart(ctx context.Context, e AcquireStart) context.Context {
	return o.second.AcquireStart(o.first.AcquireStart(ctx, e), e)
}

// AcquireEnd passes it on.
func (o observers) AcquireEnd(ctx context.Context, e AcquireEnd) context.Context {
	return o.second.AcquireEnd(o.first.AcquireEnd(ctx, e), e)
}

// Claim asks both.
func (o observers) Claim(ctx context.Context) (trace string) {
	first, second := o.first.Claim(ctx), o.second.Claim(ctx)
	if first != "" {
		return first
	}
	return second
}

// RenewStart passes it on.
func (o observers) RenewStart(ctx context.Context, e RenewStart) context.Context {
	return o.second.RenewStart(o.first.RenewStart(ctx, e), e)
}

// Renewed passes it on.
func (o observers) Renewed(ctx context.Context, e Renewed) {
	o.first.Renewed(ctx, e)
	o.second.Renewed(ctx, e)
}

// Missed passes it on.
func (o observers) Missed(ctx context.Context, e Missed) {
	o.first.Missed(ctx, e)
	o.second.Missed(ctx, e)
}

// CleanUp passes it on.
func (o observers) CleanUp(ctx context.Context) context.Context {
	return o.second.CleanUp(o.first.CleanUp(ctx))
}

// Lost passes it on.
func (o observers) Lost(ctx context.Context, e Lost) {
	o.first.Lost(ctx, e)
	o.second.Lost(ctx, e)
}

// Released passes it on.
func (o observers) Released(ctx context.Context, e Released) {
	o.first.Released(ctx, e)
	o.second.Released(ctx, e)
}

// Unlocked passes it on.
func (o observers) Unlocked(ctx context.Context, e Unlocked) {
	o.first.Unlocked(ctx, e)
	o.second.Unlocked(ctx, e)
}

// Fault passes it on.
func (o observers) Fault(e Fault) {
	o.first.Fault(e)
	o.second.Fault(e)
}
