package embedetcd_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-lock/holdfast/internal/embedetcd"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("EMBEDETCD_TEST_OCCUPY"); dir != "" {
		occupy(dir)
	}
	os.Exit(m.Run())
}

// occupy holds a directory until the process is killed.
func occupy(dir string) {
	if _, err := embedetcd.Start(context.Background(), embedetcd.Config{Dir: dir, Log: slog.Default()}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

// shortDir is a temporary directory whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

func start(t *testing.T, dir string, log *slog.Logger) *embedetcd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := embedetcd.Start(ctx, embedetcd.Config{Dir: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func refused(t *testing.T, dir string, want string) {
	t.Helper()
	begin := time.Now()
	s, err := embedetcd.Start(t.Context(), embedetcd.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		s.Stop()
		t.Fatalf("got a start, want an error with %q", want)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("refused after %v, want at once", took)
	}
	if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") || !strings.Contains(text, dir) {
		t.Errorf("got error %q, want one line with %q and the directory", text, want)
	}
}

func logTo(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, nil))
}

func TestRestartKeepsKeys(t *testing.T) {
	dir, log := shortDir(t), new(bytes.Buffer)
	begin := time.Now()
	s := start(t, dir, logTo(log))
	t.Logf("first start took %v", time.Since(begin))
	put, err := s.Client().Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()

	begin = time.Now()
	s = start(t, dir, logTo(log))
	t.Logf("second start took %v", time.Since(begin))
	got, err := s.Client().Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 1 || string(got.Kvs[0].Value) != "v" || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Errorf("got %v, want v at revision %d", got.Kvs, put.Header.Revision)
	}
	s.Stop()
	select {
	case err := <-s.Err():
		t.Errorf("got error %v after Stop, want none", err)
	default:
	}
	if log.Len() > 0 {
		t.Errorf("a usual start and stop logged %q", log.String())
	}
}

func TestOnlyTheOwnerCanReachIt(t *testing.T) {
	dir := shortDir(t)
	s := start(t, dir, slog.New(slog.DiscardHandler))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("got mode %o, want 700", got)
	}
	conn, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatalf("etcdctl's socket: %v", err)
	}
	_ = conn.Close()
	if got := listening(t); len(got) > 0 {
		t.Errorf("got TCP listeners %v, want none", got)
	}
}

// listening returns what this process listens on over TCP.
func listening(t *testing.T) []string {
	t.Helper()
	inodes := make(map[string]bool)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	for _, fd := range fds {
		target, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var found []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && inodes[f[9]] {
				found = append(found, f[1])
			}
		}
	}
	return found
}

func TestSecondStartIsRefused(t *testing.T) {
	dir := shortDir(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "EMBEDETCD_TEST_OCCUPY="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 64)
	n, _ := out.Read(word)
	if got := string(word[:n]); got != "started\n" {
		t.Fatalf("the other process said %q", got)
	}
	refused(t, dir, fmt.Sprintf("is in use by another process (pid %d)", other.Process.Pid))

	// Killed, it leaves the directory free, and its socket's file behind.
	_ = other.Process.Kill()
	_ = other.Wait()
	start(t, dir, slog.New(slog.DiscardHandler))
	refused(t, dir, "is in use by another process") // also by this one
}

func TestUnusableDirectories(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("x", 100))
	refused(t, long, "path is too long for a unix socket")

	file := shortDir(t)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file, "not a directory")

	foreign := shortDir(t)
	if err := os.MkdirAll(filepath.Join(foreign, "etc"), 0o750); err != nil {
		t.Fatal(err)
	}
	refused(t, foreign, "nothing of Holdfast's is in it")
	if info, err := os.Stat(foreign); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("got mode %v, %v; want a foreign directory left as it was", info.Mode(), err)
	}
}

func TestUnreadableDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; test/e2e starts the program as somebody else")
	}
	closed := shortDir(t)
	if err := os.Mkdir(closed, 0o000); err != nil {
		t.Fatal(err)
	}
	refused(t, closed, "permission denied")
}

func TestDamagedDataIsOneLine(t *testing.T) {
	for _, what := range []string{"wal", "snap/db"} {
		t.Run(what, func(t *testing.T) {
			dir := shortDir(t)
			s := start(t, dir, slog.New(slog.DiscardHandler))
			if _, err := s.Client().Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			damage(t, filepath.Join(dir, "member", what))
			refused(t, dir, "etcd: ")
		})
	}
}

// damage overwrites a file, or the files of a directory, from the start.
func damage(t *testing.T, path string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(path, "*.wal"))
	if len(files) == 0 {
		files = []string{path}
	}
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 9000), 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := shortDir(t)
	if s, err := embedetcd.Start(ctx, embedetcd.Config{Dir: dir, Log: slog.Default()}); err == nil {
		s.Stop() // it was quicker than the look at ctx
		return
	}
	start(t, dir, slog.New(slog.DiscardHandler)) // the directory is free again
}

func TestStopLeavesNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := start(t, shortDir(t), slog.New(slog.DiscardHandler))
	events := s.Client().Watch(t.Context(), "k")
	if _, err := s.Client().Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	<-events
	s.Stop()
	goleak.VerifyNone(t, before)
}
