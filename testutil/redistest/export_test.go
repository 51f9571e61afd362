package redistest

// TakeBlock takes a block of ports, the n-th if that is free, and returns the
// first of them.
func TakeBlock(n int) (first int, giveBack func() error, err error) {
	b, err := takeBlock(n)
	if err != nil {
		return 0, nil, err
	}
	return b.first, b.guard.Close, nil
}
