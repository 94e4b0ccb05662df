package readme_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// atOnce is far less than any window, and much for a busy machine.
const atOnce = 4 * time.Second

// TestWithLock tries the script against one replica. Its polls are short, so
// that whoever waits has to keep the place from one to the next.
func TestWithLock(t *testing.T) {
	needs(t, "bash", "curl")
	r := harness.Start(t, "--data-dir="+harness.Dir(t), "--max-wait=300ms")
	for name, try := range map[string]func(s *stage){
		"status":          passesTheStatusThrough,
		"line":            neverOverlapsAndWaitsInLine,
		"INT":             func(s *stage) { releasesOnSignal(s, syscall.SIGINT) },
		"TERM":            func(s *stage) { releasesOnSignal(s, syscall.SIGTERM) },
		"HUP":             func(s *stage) { releasesOnSignal(s, syscall.SIGHUP) },
		"INT-in-line":     leavesTheLineOnSignal,
		"broken":          stopsWorkThatIsBroken,
		"broken-stubborn": killsWorkThatDoesNotStop,
		"killed":          lapsesWhenKilled,
		"not-acquired":    givesUp,
		"usage":           refusesBadUsage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(newStage(t, r, "mutex-"+name))
		})
	}
}

func passesTheStatusThrough(s *stage) {
	s.starts("echo $HOLDFAST_FENCING_TOKEN >fence; exit 7").ends(7, patience)
	history := s.get("/history").Raw
	if fence := strings.TrimSpace(s.file("fence")); fence == "" || !strings.Contains(history, `"fencing_token":`+fence+`}`) {
		s.Errorf("got fencing token %q in the command, want that of %s", fence, history)
	}
	if got := s.ended(); got != "released" {
		s.Errorf("got %q of the ownership, want released", got)
	}
}

func neverOverlapsAndWaitsInLine(s *stage) {
	work := func(name string) string {
		return "echo begin " + name + " >>log; until [ -e go ]; do sleep 0.05; done; echo end " + name + " >>log"
	}
	one := s.starts(work("one"), "LOCK_CONTENDER=one")
	s.eventually("one works", func() bool { return s.file("log") != "" })
	two := s.starts(work("two"), "LOCK_CONTENDER=two")
	s.eventually("two is in line", func() bool { return slices.Equal(s.line(), []string{"two"}) })
	three := s.starts(work("three"), "LOCK_CONTENDER=three")
	s.eventually("three is in line", func() bool { return len(s.line()) == 2 })
	time.Sleep(time.Second) // three polls of each
	if got, want := s.line(), []string{"two", "three"}; !slices.Equal(got, want) {
		s.Errorf("got line %v after some polls, want %v", got, want)
	}
	s.says("go")
	for _, r := range []*run{one, two, three} {
		r.ends(0, patience)
	}
	neverOverlap(s, "one", "two", "three")
	if got := two.out.text(); !strings.Contains(got, "in line for "+s.mutex+", which one owns") {
		s.Errorf("got %q of who waits, want to know the owner", got)
	}
}

// neverOverlap holds the log of the commands against who should have run, each
// after the other. Who comes after the first is open: with polls as short as
// these a turn may come while its contender is between two, and pass on.
func neverOverlap(s *stage, names ...string) {
	s.Helper()
	lines := strings.Split(strings.TrimSpace(s.file("log")), "\n")
	var ran []string
	for pair := range slices.Chunk(lines, 2) {
		name := strings.TrimPrefix(pair[0], "begin ")
		if len(pair) < 2 || pair[1] != "end "+name {
			s.Fatalf("got %q, want each to end before the next begins", lines)
		}
		ran = append(ran, name)
	}
	slices.Sort(ran)
	slices.Sort(names)
	if !slices.Equal(ran, names) {
		s.Errorf("got commands of %v, want %v", ran, names)
	}
}

func releasesOnSignal(s *stage, sig syscall.Signal) {
	r := s.starts("sleep 300 & echo $! >pid; wait") // in the background of a shell INT is not heeded
	work := s.pid()
	r.signal(sig)
	r.ends(128+int(sig), atOnce)
	if got, _ := s.owner(); got != "" {
		s.Errorf("got owner %q after %v, want none", got, sig)
	}
	if got := s.ended(); got != "released" {
		s.Errorf("got %q of the ownership, want released", got)
	}
	if alive(work) {
		s.Error("the command runs on")
	}
}

func leavesTheLineOnSignal(s *stage) {
	s.anotherOwns()
	r := s.starts("touch ran", "LOCK_CONTENDER=us")
	s.eventually("the script is in line", func() bool { return slices.Equal(s.line(), []string{"us"}) })
	r.signal(syscall.SIGINT)
	r.ends(128+int(syscall.SIGINT), atOnce)
	if got := s.line(); len(got) > 0 {
		s.Errorf("got line %v, want nobody", got)
	}
}

func stopsWorkThatIsBroken(s *stage) {
	r := s.starts(sleeper, "LOCK_TTL_MS=3000")
	work := s.pid()
	s.broken()
	s.anotherOwns()
	r.ends(76, time.Second+atOnce) // a third of the ttl, and a moment
	if alive(work) {
		s.Error("the command runs on")
	}
	if got, _ := s.owner(); got != "another" {
		s.Errorf("got owner %q, want the one that came after the break", got)
	}
	if got := r.out.text(); !strings.Contains(got, "not_owner broken") {
		s.Errorf("got %q, want to know what became of the mutex", got)
	}
}

func killsWorkThatDoesNotStop(s *stage) {
	r := s.starts(`trap "" TERM; echo $$ >pid; while :; do sleep 300; done`, "LOCK_TTL_MS=3000")
	work := s.pid()
	s.broken()
	r.ends(76, 2*time.Second+atOnce) // a third of the ttl, and one second for the command
	if alive(work) {
		s.Error("the command runs on")
	}
}

func lapsesWhenKilled(s *stage) {
	r := s.starts(sleeper, "LOCK_TTL_MS=1500", "LOCK_TRANSITION_MS=1500")
	work := s.pid()
	r.signal(syscall.SIGKILL)
	<-r.done
	_, o := s.owner()
	left := time.Duration(o["transition_remaining_ms"].(float64) * float64(time.Millisecond))
	begin := time.Now()
	s.eventually("the mutex is free", func() bool { owner, _ := s.owner(); return owner == "" })
	took := time.Since(begin)
	if took < left-100*time.Millisecond { // between the two looks at the clock
		s.Errorf("free after %v, want %v at least", took, left)
	}
	if most := left + 500*time.Millisecond + atOnce; took > most { // one guard may have been on its way
		s.Errorf("free after %v, want %v at most", took, most)
	}
	if got := s.ended(); got != "expired" {
		s.Errorf("got %q of the ownership, want expired", got)
	}
	if alive(work) {
		s.Error("the command runs on while the mutex is free")
	}
}

func givesUp(s *stage) {
	s.anotherOwns()
	s.starts("touch ran", "LOCK_WAIT=1").ends(75, time.Second+atOnce)
	s.starts("touch ran", "LOCK_WAIT=0").ends(75, atOnce)
	if got := s.line(); len(got) > 0 {
		s.Errorf("got line %v, want nobody", got)
	}
	if slices.Contains(s.files(), "ran") {
		s.Error("the command ran without the mutex")
	}
}

func refusesBadUsage(s *stage) {
	s.starts("touch ran", "LOCK_WAIT=soon").ends(64, atOnce)
	s.starts("touch ran", "LOCK_TTL_MS=1").ends(64, atOnce) // which the service refuses
	s.starts("touch ran", `LOCK_CONTENDER="`).ends(64, atOnce)
	s.mutex = "no/such"
	s.starts("touch ran").ends(64, atOnce)
	if slices.Contains(s.files(), "ran") {
		s.Error("the command ran without the mutex")
	}
}

// TestWithLockInAnOutage stops the only etcd: for less than the ttl, which the
// script bears, and for longer.
func TestWithLockInAnOutage(t *testing.T) {
	needs(t, "bash", "curl")
	e := harness.StartEtcd(t, 1)
	r := harness.Start(t, "--etcd="+e.Endpoints(), "--etcd-timeout=300ms")
	s := newStage(t, r, "mutex")
	work := "echo $HOLDFAST_FENCING_TOKEN >fence; until [ -e go ]; do sleep 0.05; done"

	short := s.starts(work, "LOCK_TTL_MS=9000", "LOCK_TRANSITION_MS=1000")
	s.eventually("the command runs", func() bool { return s.file("fence") != "" })
	e.Members[0].Pause()
	s.eventually("a guard is refused", func() bool {
		return strings.Contains(r.Log(), `/guard","status":503`)
	})
	e.Members[0].Resume()
	before := strings.Count(r.Log(), `/guard","status":200`)
	s.eventually("a guard succeeds again", func() bool {
		return strings.Count(r.Log(), `/guard","status":200`) > before
	})
	s.says("go")
	short.ends(0, patience)

	long := s.starts(sleeper, "LOCK_TTL_MS=2000", "LOCK_TRANSITION_MS=1000")
	pid := s.pid()
	e.Members[0].Pause()
	begin := time.Now()
	s.eventually("the command is stopped", func() bool { return !alive(pid) })
	if took, most := time.Since(begin), 3*time.Second+atOnce; took > most {
		t.Errorf("the command was stopped after %v, want %v at most", took, most)
	}
	long.ends(76, patience)
	if got := long.out.text(); !strings.Contains(got, "not guarded for a whole ttl") {
		t.Errorf("got %q, want to know why", got)
	}
}
