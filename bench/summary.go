package main

import "math"

// better is how a figure is compared.
type better int

const (
	less  better = iota
	more         // is better
	alone        // no other has it
)

// judgement is a figure by which a change is judged: that of Lockbeat, or of a
// case.
type judgement struct {
	what               string
	table, row, column string
	better             better
}

func judgements() []judgement {
	return []judgement{
		{"lone caller, mean, µs", freeLocks(1), lockbeat, cycleMean, less},
		{"lone caller, p50, µs", freeLocks(1), lockbeat, cycleP50, less},
		{"lone caller, Redis CPU, µs a cycle", freeLocks(1), lockbeat, cycleRedis, less},
		{"4 goroutines, cycles/s", freeLocks(4), lockbeat, cyclesRate, more},
		{"8 goroutines, cycles/s", freeLocks(8), lockbeat, cyclesRate, more},
		{"16 goroutines, cycles/s", freeLocks(16), lockbeat, cyclesRate, more},
		{"64 goroutines, cycles/s", freeLocks(64), lockbeat, cyclesRate, more},
		{"lone caller, instructions of Redis", costTable, lockbeat, costIr, less},
		{"lone caller, bytes of its AOF", costTable, lockbeat, costAOF, less},
		{"from process to process, instructions of Redis", costTable, handOver, costIr, alone},
		{"a renewal of 100, instructions of Redis each", costTable, renewal, costIr, alone},
		{"one key, 4 goroutines, hand-overs/s", oneLock(1, 4), lockbeat, handOvers, more},
		{"one key, 16 goroutines, hand-overs/s", oneLock(1, 16), lockbeat, handOvers, more},
		{"one key, 2 processes, hand-overs/s", oneLock(2, 1), lockbeat, handOvers, more},
		{"one key, 8 processes, hand-overs/s", oneLock(8, 1), lockbeat, handOvers, more},
		{"one key, 64 processes, hand-overs/s", oneLock(64, 1), lockbeat, handOvers, more},
		{"one key, 64 processes, longest wait, ms", oneLock(64, 1), lockbeat, longest, less},
		{"300 callers, time ÷ ideal", callersTable, lockbeat, toIdeal, less},
		{oneUser + ", time ÷ ideal", tasksTable, oneUser, toIdeal, alone},
		{manyUsers + ", time ÷ ideal", tasksTable, manyUsers, toIdeal, alone},
		{manyTenants + ", time ÷ ideal", tasksTable, manyTenants, toIdeal, alone},
		{"1,000 locks held, client CPU, ms/s", holdTable(1000), lockbeat, holdCPU, less},
		{"10,000 locks held, client CPU, ms/s", holdTable(10_000), lockbeat, holdCPU, less},
		{"10,000 locks held, bytes a lock", holdTable(10_000), lockbeat, leaseBytes, less},
		{"a waiter is woken, mean, ms", waitTable, lockbeat, meanColumn, less},
		{"its message was lost, ms", waitTable, messageLost, meanColumn, alone},
		{"one in front of it was killed, ms", waitTable, deadInFront, meanColumn, alone},
		{"told of a break, p99, ms", breakTable, byBreak, toldP99, alone},
		{"the next one after a break, p99, ms", breakTable, byBreak, nextP99, alone},
		{"the next one by Replace, p99, ms", breakTable, byReplace, nextP99, alone},
	}
}

// summary puts the figures by which a change is judged beside the best of the
// other libraries.
func (f *figures) summary() string {
	t := table{{"", lockbeat, "by hand", "÷ by hand", "best library", "÷ that"}}
	for _, j := range judgements() {
		value := f.at(j.table, j.row, j.column)
		if math.IsNaN(value) {
			continue
		}
		hand := f.best(j, synchronous, pipelined, delayed)
		peer := f.best(j, locker, redsyncs, redislock)
		t = append(t, []string{
			j.what, number(value), number(hand), number(value / hand), number(peer),
			number(value / peer),
		})
	}
	return "\n## Summary\n\n" + t.String()
}

// best is the best figure that one of these has, NaN if none has one.
func (f *figures) best(j judgement, of ...string) float64 {
	best := math.NaN()
	if j.better == alone {
		return best
	}
	for _, who := range of {
		v := f.at(j.table, who, j.column)
		if math.IsNaN(best) || v != best && !math.IsNaN(v) && (v > best) == (j.better == more) {
			best = v
		}
	}
	return best
}
