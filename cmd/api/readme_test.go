package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// setting is a flag, as documents and program have it.
type setting struct{ flag, variable, byDefault string }

// settingsOfReadme returns the rows of its table of the configuration.
func settingsOfReadme(t *testing.T) []setting {
	t.Helper()
	var rows []setting
	for line := range strings.Lines(readme(t)) {
		if !strings.HasPrefix(line, "| `--") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(line, "|") {
			cells = append(cells, strings.Trim(strings.TrimSpace(cell), "`"))
		}
		if len(cells) != 6 || cells[4] == "" { // with what is before the first bar, and after the last
			t.Fatalf("README.md: %q is not a row of four cells", line)
		}
		rows = append(rows, setting{cells[1], cells[2], cells[3]})
	}
	return rows
}

func settingsOfProgram(t *testing.T) []setting {
	t.Helper()
	parser, err := kong.New(new(Config), kong.DefaultEnvars("HOLDFAST"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []setting
	for _, f := range parser.Model.Flags {
		if f.Name != "help" {
			rows = append(rows, setting{"--" + f.Name, strings.Join(f.Envs, " "), f.Default})
		}
	}
	return rows
}

func TestReadmeListsEverySetting(t *testing.T) {
	got, want := settingsOfReadme(t), settingsOfProgram(t)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("README.md lacks %v", want[i])
		case i >= len(want):
			t.Errorf("README.md has %v, the program has not", got[i])
		case got[i] != want[i]:
			t.Errorf("README.md has %v, want %v here", got[i], want[i])
		}
	}
}

func TestReadmeStartsTheProgram(t *testing.T) {
	lines := 0
	for line := range strings.Lines(readme(t)) {
		args, ok := strings.CutPrefix(line, "bin/holdfast ")
		if !ok {
			continue
		}
		lines++
		if _, _, err := parse(strings.Fields(args), new(bytes.Buffer)); err != nil {
			t.Errorf("README.md: %s: %v", strings.TrimSpace(line), err)
		}
	}
	if lines == 0 {
		t.Error("README.md does not start the program")
	}
}
