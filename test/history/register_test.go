package history_test

import (
	"sync"
	"testing"
	"time"
)

// register is what a mutex protects. It refuses stale fencing tokens, as
// whatever must not be written twice should.
type register struct {
	mu      sync.Mutex
	highest int64 // guarded by mu
}

// write is one attempt at a register.
type write struct {
	mutex   int
	fence   int64
	done    time.Duration
	refused bool
}

func (r *run) write(mutex int, fence int64) {
	reg := &r.register[mutex]
	reg.mu.Lock()
	refused := fence < reg.highest
	reg.highest = max(reg.highest, fence)
	reg.mu.Unlock()
	w := write{mutex: mutex, fence: fence, done: r.now(), refused: refused}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, w)
}

// checkRegister: whoever certainly owned was not refused.
func checkRegister(t testing.TB, writes []write, spans []span) {
	t.Helper()
	byFence := map[int64][]span{}
	for _, s := range spans {
		byFence[s.fence] = append(byFence[s.fence], s)
	}
	refused := 0
	for _, w := range writes {
		if !w.refused {
			continue
		}
		refused++
		for _, s := range byFence[w.fence] {
			if s.mutex == w.mutex && s.from <= w.done && w.done < s.to {
				t.Errorf("m%d: the register refused fence %d at %.3f, which owned in [%.3f, %.3f)",
					w.mutex, w.fence, ms(w.done), ms(s.from), ms(s.to))
			}
		}
	}
	t.Logf("%d writes to the registers, %d of them refused as stale", len(writes), refused)
}
