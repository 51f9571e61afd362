package main

import (
	"math/bits"
	"slices"
	"time"
)

// median is the middle value, the upper one of two. It is 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// histogram counts durations in buckets whose widths grow with the value, 1/16 of it at
// most, so that recording costs neither memory nor time that would disturb what is measured.
type histogram struct {
	counts [64 * fine]uint32
	total  int
}

const (
	fineBits = 4
	fine     = 1 << fineBits // buckets for each doubling
)

func (h *histogram) record(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range &o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// quantile is the lower bound of the bucket that holds the q-th part; 0 of an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int(q * float64(h.total))
	for i, n := range &h.counts {
		rank -= int(n)
		if n > 0 && rank < 0 {
			return time.Duration(lowest(i))
		}
	}
	return 0
}

// bucket keeps the leading bit and the fineBits after it.
func bucket(v uint64) int {
	if v < fine {
		return int(v)
	}
	shift := bits.Len64(v) - fineBits - 1
	return shift*fine + int(v>>shift)
}

// lowest is the smallest value of a bucket.
func lowest(i int) uint64 {
	if i < 2*fine {
		return uint64(i)
	}
	shift := i/fine - 1
	return uint64(i-shift*fine) << shift
}
