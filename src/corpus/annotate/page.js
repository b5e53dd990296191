// The page of `spoor annotate`. Everything from the crawled web becomes text nodes;
// what is asked next, and of whom, is decided by the server alone.
"use strict";

const $ = (id) => document.getElementById(id);
const body = document.body;
// The place of each answer to the text question, and the key for it.
const ARROWS = [["up", "↑", "ArrowUp"], ["right", "→", "ArrowRight"], ["left", "←", "ArrowLeft"], ["down", "↓", "ArrowDown"]];
const ENDS = {
  wait: ["Nothing for you just now", "The rest is with other people at the moment. This page looks again by itself; you may also come back later."],
  done: ["All done, thank you", "There is no image left for you to judge. Your answers are kept, and this page may be closed."],
  retired: ["Thank you for your help", "Some of your answers differ from those that are known to be right, so there are no more images for you. That happens easily where the classes are not clear; please talk to the person who invited you."],
};
const POLL_MS = 15000;

let setup, turn, timer;
let busy = false;
const who = (new URLSearchParams(location.search).get("as") || "").trim();

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function say(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function view(name) {
  body.dataset.view = name;
  for (const id of ["start", "end", "ask"]) $(id).hidden = id !== name;
}

// One request at a time: a person who types faster than the network answers would judge
// an image that they have not seen.
async function ask(path, more) {
  if (busy) return;
  busy = true;
  clearTimeout(timer);
  try {
    let answer = await send(path, more);
    let note = "";
    if (answer.status === 409) {
      note = await answer.text();
      answer = await send("/next");
    }
    if (!answer.ok) throw new Error(await answer.text());
    turn = await answer.json();
    say(note);
    show();
  } catch (error) {
    mark(null);
    say(error instanceof TypeError
      ? "The server does not answer. Is spoor annotate still running? Try again; an answer given twice counts once."
      : error.message);
    if (!turn) timer = setTimeout(ask, POLL_MS, "/next");
  } finally {
    busy = false;
  }
}

function send(path, more) {
  const headers = { "Content-Type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify({ annotator: who, ...more }) });
}

function show() {
  $("own").textContent = `${turn.own} judged`;
  $("percent").textContent = `${turn.percent} % of all`;
  $("bar").value = turn.percent;
  $("undo").disabled = !turn.undo;
  if (turn.state !== "ask") {
    const [title, text] = ENDS[turn.state];
    $("end-title").textContent = title;
    $("end-text").textContent = text;
    $("again").hidden = turn.state !== "wait";
    body.dataset.state = turn.state;
    view("end");
    if (turn.state === "wait") timer = setTimeout(ask, POLL_MS, "/next");
    return;
  }
  body.dataset.state = "ask";
  showPicture();
  showWords();
  showAnswers();
  view("ask");
  // Last: who waits for these finds the rest in place.
  body.dataset.question = turn.question;
  body.dataset.image = turn.image;
}

function showPicture() {
  const source = `/image/${turn.image}`;
  const picture = $("picture");
  if (picture.getAttribute("src") === source) return;
  delete body.dataset.ready;
  $("no-picture").hidden = true;
  picture.hidden = false;
  picture.src = source;
}

function showWords() {
  const judged = $("judged");
  const others = $("others");
  judged.replaceChildren();
  others.replaceChildren();
  for (const { label, text, judged: marked } of turn.words) {
    if (marked) {
      const box = element("div", undefined, "judged");
      box.append(element("h2", label), element("p", text));
      judged.append(box);
    } else {
      others.append(element("dt", label), element("dd", text));
    }
  }
  for (const [label, text] of [["Page", turn.page], ["Address of the image", turn.url]]) {
    if (text) others.append(element("dt", label), element("dd", text));
  }
  const alone = setup.two_phase && turn.question === "image";
  if (!alone && !judged.childElementCount) judged.append(element("p", "There are no words around this image.", "none"));
  body.dataset.words = alone ? "no" : "yes";
  $("words").scrollTop = 0;
}

function showAnswers() {
  const text = turn.question === "text";
  $("question").textContent = text
    ? "How do the marked words relate to it?"
    : "What does the image show?";
  const classes = text ? setup.text_classes : setup.classes;
  const buttons = classes.map((name, at) => {
    const [place, arrow] = ARROWS[at];
    const button = element("button", undefined, text ? place : "");
    button.type = "button";
    button.value = name;
    button.append(element("kbd", text ? arrow : String(at + 1), text ? "arrow" : "digit"), element("span", name));
    button.addEventListener("click", () => vote(name));
    return button;
  });
  $("said").textContent = turn.answered;
  $("said").hidden = !text || !turn.answered;
  $("answers").className = text ? "arrows" : "";
  $("answers").replaceChildren(...buttons);
}

function mark(answer) {
  for (const button of $("answers").children) button.classList.toggle("chosen", button.value === answer);
}

function vote(answer) {
  if (busy || !body.dataset.ready || body.dataset.view !== "ask") return;
  mark(answer);
  ask("/vote", { image: turn.image, question: turn.question, answer });
}

function undo() {
  if (turn && turn.undo) ask("/undo");
}

function key(event) {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "INPUT" || !turn) return;
  const pressed = event.key;
  let answer;
  if (pressed === "u" || pressed === "U" || pressed === "Backspace") {
    undo();
  } else if (turn.state === "ask" && turn.question === "image" && /^[1-9]$/.test(pressed)) {
    answer = setup.classes[Number(pressed) - 1];
  } else if (turn.state === "ask" && turn.question === "text") {
    answer = setup.text_classes[ARROWS.findIndex(([, , arrow]) => arrow === pressed)];
  } else {
    return;
  }
  if (answer) vote(answer);
  if (answer || pressed === "Backspace") event.preventDefault();
}

async function begin() {
  $("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("name").value.trim();
    if (name) location.search = `?${new URLSearchParams({ as: name })}`;
  });
  $("undo").addEventListener("click", undo);
  $("again").addEventListener("click", () => ask("/next"));
  $("picture").addEventListener("load", () => { body.dataset.ready = "yes"; });
  $("picture").addEventListener("error", () => {
    $("picture").hidden = true;
    $("no-picture").hidden = false;
    body.dataset.ready = "yes";
  });
  document.addEventListener("keydown", key);
  $("more").open = matchMedia("(min-width: 761px)").matches;
  try {
    setup = await (await fetch("/setup")).json();
  } catch {
    say("The server does not answer. Is spoor annotate still running? Then load this page again.");
    return;
  }
  $("job").textContent = setup.job;
  for (const line of document.querySelectorAll(".topic")) {
    line.append("The topic is ", element("b", setup.job));
    if (setup.topic.length) line.append(`: ${setup.topic.join(", ")}`);
    line.hidden = false;
  }
  if (!who) {
    view("start");
    $("name").focus();
    return;
  }
  $("who").textContent = who;
  await ask("/next");
}

begin();
