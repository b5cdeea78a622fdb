// What is known about one conversation, and how each event of the server changes it. No page, no network: values only.

/** A conversation that nothing is known about yet. */
export function makeState(conversation) {
  return {
    conversation,
    thread: null,
    entries: [],
    more: false,
    waiting: [], // stored messages that are not in the transcript: {seq, text, by, files, at, id, begun}
    live: null, // {seqs, before, segments: [{key, kind, …}]} of the turn under way; before: ids of what was said then
    question: null,
    askedAt: 0,
    model: "", // that answers next
    answered: "", // the model that answered last in the place of the chosen one
    ready: false, // a snapshot has come
    seen: new Set(), // seqs that were heard or settled: none is shown twice
  };
}

export const isWorking = (state) => state.live !== null;

/** Changes the state as an event says; an unknown event changes nothing. */
export function applyEvent(state, event) {
  HANDLERS[event.type]?.(state, event);
}

const HANDLERS = {
  snapshot(state, { thread, entries, more, waiting, live, question, labels, model, answered }) {
    const begun = new Set([...(live?.seqs ?? []), ...(live?.taken ?? [])]);
    Object.assign(state, { thread, entries, more, model, answered, ready: true });
    state.question = question && { ...question, labels };
    state.waiting = waiting.map((message) => ({ ...message, begun: begun.has(message.seq) }));
    for (const { seq } of waiting) state.seen.add(seq);
    const before = entries.filter((entry) => live && entry.at < live.at);
    state.live = live ? { seqs: live.seqs, before: listIds(before), segments: readPicture(live) } : null;
  },
  heard(state, { seq, text, by, files, at, id }) {
    if (state.seen.has(seq)) return;
    state.seen.add(seq);
    state.waiting.push({ seq, text, by, files: files ?? [], at, id, begun: false });
  },
  begun(state, { seqs }) {
    for (const message of state.waiting) if (seqs.includes(message.seq)) message.begun = true;
    state.live = { seqs, before: listIds(state.entries), segments: [] };
  },
  /** The turn has read what was said into it: from here on that stands where it was read, and waits no more. */
  taken(state, { seqs }) {
    const read = state.waiting.filter((message) => seqs.includes(message.seq) && !message.begun);
    state.waiting = state.waiting.filter((message) => !read.includes(message));
    openTurn(state).segments.push(...read.map((message) => ({ key: `w${message.seq}`, kind: "own", message })));
  },
  text: (state, { text }) => addPiece(state, "text", text),
  reasoning: (state, { text }) => addPiece(state, "reasoning", text),
  text_ended(state, { kept }) {
    if (!state.live) return;
    if (!kept) state.live.segments = state.live.segments.filter((segment) => !segment.open);
    for (const segment of state.live.segments) segment.open = false;
  },
  tool_started(state, { id, name, preview }) {
    const segments = openTurn(state).segments;
    segments.push({
      key: `t${id}`,
      kind: "tool",
      id,
      name,
      preview,
      ok: null,
      seconds: null,
      result: "",
      since: now(),
    });
  },
  tool_ended(state, { id, name, ok, seconds, preview }) {
    const segments = openTurn(state).segments;
    const tool = segments.find((segment) => segment.kind === "tool" && segment.id === id);
    if (tool) Object.assign(tool, { ok, seconds, result: preview });
    else segments.push({ key: `t${id}`, kind: "tool", id, name, preview: "", ok, seconds, result: preview });
  },
  notice(state, { text, level }) {
    const key = `n${makeNumber()}`;
    if (state.live) state.live.segments.push({ key, kind: "notice", text, level });
    else state.entries.push({ id: key, kind: "note", text, level, at: now() });
  },
  asked(state, { question, labels }) {
    noteThinking(state, question);
    state.question = question && { ...question, labels };
  },
  note(state, { entry }) {
    addEntries(state, [entry]);
  },
  settled(state, { seqs, thread, entries, model, answered }) {
    Object.assign(state, { model, answered });
    const fresh = keepSeen(state.live?.segments ?? [], entries ?? []);
    state.waiting = state.waiting.filter((message) => !seqs.includes(message.seq));
    for (const seq of seqs) state.seen.add(seq);
    if (state.live?.seqs.some((seq) => seqs.includes(seq))) {
      state.live = null;
      state.question = null;
    }
    if (thread) state.thread = thread;
    addEntries(state, fresh);
  },
  title(state, { session, title }) {
    if (state.thread?.session === session) state.thread = { ...state.thread, title };
  },
};

/** The time in which a person thinks about a question is not the time of the tools that wait for it. */
function noteThinking(state, question) {
  const waited = state.question ? now() - state.askedAt : 0;
  if (question) state.askedAt = now();
  for (const tool of state.live?.segments ?? []) if (tool.kind === "tool" && tool.ok === null) tool.since += waited;
}

/** No clock: what is known when a turn begins was said before it, whoever's time it has. */
const listIds = (entries) => new Set(entries.map(({ id }) => id));
const now = () => Date.now() / 1000;
let numbers = 0;
const makeNumber = () => (numbers += 1);

function openTurn(state) {
  state.live ??= { seqs: [], before: listIds(state.entries), segments: [] };
  return state.live;
}

/** Text of one kind goes on in the same segment until something else comes between. What is open may be taken back. */
function addPiece(state, kind, text) {
  const segments = openTurn(state).segments;
  const last = segments.at(-1);
  if (last?.kind === kind && last.open) last.text += text;
  else segments.push({ key: `s${makeNumber()}`, kind, text, open: true });
}

/** The segments of a turn that was under way before this page looked. */
function readPicture({ text, reasoning, tools, open }) {
  const words = (kind, text, open) => (text ? [{ key: `s${makeNumber()}`, kind, text, open }] : []);
  return [
    ...words("reasoning", reasoning, false),
    ...tools.map((tool) => ({ ...tool, key: `t${tool.id}`, kind: "tool", since: now() })),
    ...words("text", text, false),
    ...words("reasoning", open.reasoning, true),
    ...words("text", open.text, true),
  ];
}

const SHOWN_AS = { tool: "tool", assistant: "text" };

/** What only the live turn knew (thoughts, and how long tools took) stays with its entries while the page is open. */
function keepSeen(segments, entries) {
  const left = segments.filter(({ kind }) => ["tool", "text", "reasoning"].includes(kind));
  const stored = entries.some(({ reasoning }) => reasoning);
  return entries.flatMap((entry) => {
    const thoughts = [];
    if (SHOWN_AS[entry.kind]) while (left[0]?.kind === "reasoning") thoughts.push(makeThought(left.shift(), entry));
    const segment = left[0]?.kind === SHOWN_AS[entry.kind] ? left.shift() : null;
    const known = entry.kind === "tool" ? { ...entry, seconds: segment?.seconds ?? null } : entry;
    return stored ? [known] : [...thoughts, known];
  });
}

const makeThought = ({ key, text }, { at }) => ({
  id: key,
  kind: "assistant",
  text: "",
  reasoning: text,
  position: -1,
  at,
});

/** Adds entries at the end; one that is there already moves to its right place. */
function addEntries(state, fresh) {
  const ids = new Set(fresh.map((entry) => entry.id));
  state.entries = [...state.entries.filter((entry) => !ids.has(entry.id)), ...fresh];
}

/** Puts earlier entries before those that are there. */
export function addEarlier(state, entries, more) {
  state.entries = [...entries, ...state.entries];
  for (const { id } of entries) state.live?.before.add(id);
  state.more = more;
}
