module github.com/lockbeat/lockbeat/bench

go 1.26.0

require (
	github.com/lockbeat/lockbeat v0.0.0
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/lockbeat/lockbeat => ..
