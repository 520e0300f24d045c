// Package top shows semaphores live on a terminal. The model uses neither Redis nor a terminal
// directly: it shows the data of a berthwatch.Sampler, and never waits.
package top

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
)

const (
	// frame is how often the screen is updated.
	frame = 250 * time.Millisecond
	// remark is how long the result of an action is shown.
	remark = 8 * time.Second
	// actionTimeout bounds an action.
	actionTimeout = 5 * time.Second
)

// Config has the model's sources. Of its functions, only Do and Server may wait for Redis.
type Config struct {
	Look     func() berthwatch.View
	Detail   func(name string) berthwatch.Detail
	Refresh  func(name string) // what was changed is to be read again
	History  func(name string, since time.Time) []berthwatch.Point
	Flow     func(name string, since time.Time) berthwatch.Flow
	Do       func(context.Context, berthwatch.Action) error
	Where    string                       // which Redis it is, and which prefix
	Server   func(context.Context) string // what the server says of itself, "" if it does not
	Command  string                       // what the commands that are shown begin with: berth, and its flags
	ReadOnly string                       // why nothing may be changed; "": it may
	ASCII    bool                         // the terminal shows nothing else
}

// screen is one of the screens.
type screen int

const (
	listScreen screen = iota
	detailScreen
	eventsScreen
	helpScreen
)

// Model is the state of the screen.
type Model struct {
	cfg           Config
	style         style
	width, height int
	now           time.Time
	server        string

	view   berthwatch.View
	frozen bool // the display is paused

	screen   screen
	back     screen // where esc leads from events and help
	visible  []berthwatch.Row
	selected string // name of the row
	top      int    // first row that is shown
	sort     int    // of orders
	reverse  bool
	filter   string
	typing   bool // the filter is being typed
	only     bool // contended ones

	name    string // of the semaphore in detail
	detail  berthwatch.Detail
	records [2][]record // of detail
	table   int         // the one with the cursor
	at      [2]int      // where it is in each table
	id      [2]string   // whom it is at there, which it follows
	from    int         // first event that is shown

	dialog *dialog
	note   string // the outcome of the last action
	until  time.Time
}

// New returns a model; its screen gets a size later.
func New(cfg Config) *Model {
	return &Model{cfg: cfg, style: colours(), width: 80, height: 24}
}

type (
	tickMsg   time.Time
	serverMsg string
	doneMsg   struct {
		action berthwatch.Action
		err    error
	}
)

func tick() tea.Cmd { return tea.Tick(frame, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return tea.Batch(tick(), m.askServer) }

func (m *Model) askServer() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), actionTimeout)
	defer cancel()
	return serverMsg(m.cfg.Server(ctx))
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.now = time.Time(msg)
		m.refresh()
		return m, tick()
	case serverMsg:
		m.server = string(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case doneMsg:
		look, result := m.style.good, "done"
		if msg.err != nil {
			look, result = m.style.bad, short(msg.err)
		}
		m.say(look, msg.action.Verb+" "+msg.action.Name+": "+result)
		m.cfg.Refresh(msg.action.Name)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		m.edit("", msg.Content)
	}
	return m, nil
}

// refresh takes the sampler's present data. What is frozen gets none, but a semaphore that was
// opened since is read once.
func (m *Model) refresh() {
	if m.frozen {
		if m.screen == detailScreen && m.detail.State == nil {
			m.look()
		}
		return
	}
	m.view = m.cfg.Look()
	if m.screen == detailScreen || m.back == detailScreen {
		m.look()
	}
	m.arrange()
}

// say shows text for a while, which may have come from other programs.
func (m *Model) say(look look, text string) { m.note, m.until = look(clean(text)), m.now.Add(remark) }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = strings.TrimSpace("berth top " + m.cfg.Where)
	return v
}

// text returns the whole screen, a line for each of its rows.
func (m *Model) text() string {
	lines := m.header()
	room := max(m.height-len(lines)-1, 1)
	switch {
	case m.dialog != nil:
		lines = append(lines, m.dialogLines()...)
	case m.screen == detailScreen:
		lines = append(lines, m.detailLines(room)...)
	case m.screen == eventsScreen:
		lines = append(lines, m.eventLines(room)...)
	case m.screen == helpScreen:
		lines = append(lines, m.helpLines()...)
	default:
		lines = append(lines, m.listLines(room)...)
	}
	rows := make([]string, max(m.height, 1))
	last := len(rows) - 1
	copy(rows[:last], lines)
	rows[last] = m.footer()
	for i := range rows {
		rows[i] = scr.Fit(rows[i], m.width)
	}
	text := strings.Join(rows, "\n")
	if m.cfg.ASCII {
		return toASCII(text)
	}
	return text
}
