// What is nicer with a script. Everything works without it.
"use strict";
for (const box of document.querySelectorAll(".command")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain small";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy this command");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(box.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}

// Progress as it happens; without a script the page loads itself again.
const work = document.querySelector("[data-work]");
if (work && window.EventSource) {
  const source = new EventSource("/work/events?id=" + encodeURIComponent(work.dataset.work));
  const bar = work.querySelector("progress");
  source.addEventListener("message", (event) => {
    const now = JSON.parse(event.data);
    work.querySelector("[data-progress]").textContent = now.progress;
    if (now.total) { bar.max = now.total; bar.value = now.done; } else { bar.removeAttribute("value"); }
    if (now.over) { source.close(); location.reload(); }
  });
}

// Names of this page are narrowed while a person types; the button asks for all pages.
const filter = document.querySelector("[data-filter]");
const names = document.getElementById("names");
if (filter && names) {
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of names.tBodies[0].rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
  });
}

// "/" goes to the search of a page, as on many others.
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && !typing && search && !event.ctrlKey && !event.metaKey) { event.preventDefault(); search.focus(); }
});
