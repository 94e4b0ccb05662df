package embedetcd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	lockFile   = "holdfast.lock"
	socketFile = "etcd.sock"

	// maxSocketPath is what fits into a unix socket's address on every
	// system: 104 bytes on BSD and macOS, a zero at the end included. Linux
	// has 4 more.
	maxSocketPath = 103
)

// dataDir is a directory that this process has locked.
type dataDir struct {
	path string
	lock *os.File
}

// openDir creates, checks and locks the directory. Etcd would wait silently,
// and for ever, for another process to leave it.
func openDir(dir string) (*dataDir, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	d := &dataDir{path: path}
	if n := len(d.socket()); n > maxSocketPath {
		return nil, fmt.Errorf("data directory %q: its path is too long for a unix socket: %q has %d bytes, at most %d are possible",
			dir, d.socket(), n, maxSocketPath)
	}
	if err := d.prepare(); err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	if err := d.acquire(); err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	return d, nil
}

func (d *dataDir) socket() string { return filepath.Join(d.path, socketFile) }

// prepare makes the directory readable for nobody else. It does that to an
// empty directory and to one that it used before, and to no other: somebody
// may have named /tmp.
func (d *dataDir) prepare() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return reason(err)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return reason(err)
	}
	if len(entries) > 0 && !ours(entries) {
		return errors.New("is not empty, and nothing of Holdfast's is in it")
	}
	info, err := os.Stat(d.path)
	if err != nil {
		return reason(err)
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	if err := os.Chmod(d.path, 0o700); err != nil {
		return fmt.Errorf("must have mode 0700: %w", reason(err))
	}
	return nil
}

// ours reports whether a directory was used before: by an etcd of Holdfast's,
// or by whatever restored a snapshot into it.
func ours(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() == lockFile || e.Name() == "member" {
			return true
		}
	}
	return false
}

// acquire takes the lock, which the system takes back when the process ends
// in whatever way.
func (d *dataDir) acquire() error {
	f, err := os.OpenFile(filepath.Join(d.path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return reason(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("is in use by another process%s", holder(f))
		}
		return fmt.Errorf("lock: %w", err)
	}
	d.lock = f
	// The number only helps whoever reads the message above.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	return nil
}

func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(text))
	if err != nil || pid == "" {
		return ""
	}
	return " (pid " + pid + ")"
}

func (d *dataDir) close() { _ = d.lock.Close() }

// reason is err without the path, which the message has already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Op, pe.Err)
	}
	return err
}
