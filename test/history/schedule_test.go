package history_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Faults last, and pauses between them too, from the first to the second. Now
// and then there is a calm, so long that no fault is an excuse any more.
const (
	briefest, longest = 200 * time.Millisecond, 8 * time.Second
	leastPause, pause = time.Second, 4 * time.Second
	calm, longestCalm = recovery + 3*time.Second, recovery + 8*time.Second
	calmOnceIn        = 8
)

// scheduler draws faults. With the same seed they are the same.
type scheduler struct{ rng *rand.Rand }

// newScheduler has a stream of its own, beside those of the clients.
func newScheduler(seed uint64) *scheduler {
	const stream = 1 << 32
	return &scheduler{rng: rand.New(rand.NewPCG(seed, stream))}
}

// next returns one fault or two that begin together, the shorter first, and
// how long to leave things alone afterwards.
func (s *scheduler) next() (together []fault, rest time.Duration) {
	together = append(together, s.draw())
	if second := s.draw(); s.rng.IntN(4) == 0 && !together[0].kind.alone && !second.kind.alone {
		together = append(together, second)
	}
	slices.SortFunc(together, func(a, b fault) int { return cmp.Compare(a.lasts, b.lasts) })
	rare, killed := s.rng.IntN(calmOnceIn) == 0, slices.ContainsFunc(together, func(f fault) bool { return f.kind.deadly })
	if rare || killed && s.rng.IntN(2) == 0 { // who is dead shows in who comes after
		return together, s.between(calm, longestCalm)
	}
	return together, s.between(leastPause, pause)
}

func (s *scheduler) draw() fault {
	f := fault{a: s.rng.IntN(1 << 20), b: s.rng.IntN(1 << 20), lasts: s.between(briefest, longest)}
	total := 0
	for _, k := range faultKinds {
		total += k.weight
	}
	roll := s.rng.IntN(total)
	for i := range faultKinds {
		if roll -= faultKinds[i].weight; roll < 0 {
			f.kind = &faultKinds[i]
			break
		}
	}
	return f
}

func (s *scheduler) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)))
}
