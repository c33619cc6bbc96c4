import { html } from "hono/html";
import { plainLine } from "../../../proto/plain-text.ts";
import { cardPage, type Html, type PageLinks } from "../page-frame.ts";

/** The address of the form of a new watch. */
export const newWatchPath = "/watches/new";
/** The address of the forms that change a watch. */
export const changeWatchPath = "/watches/change";

/** The fields of the definition of a watch, as typed. */
export interface WatchFields {
  name: string;
  filter: string;
  moreThan: string;
  for: string;
  receivers: readonly string[];
}

/** What a page of a watch shows beside its fields. */
export interface WatchPageParts {
  fields: WatchFields;
  /** The receivers of core's configuration. */
  receivers: readonly string[];
  /** Why core, or web, did not accept the form. */
  faults: readonly string[];
  links: PageLinks;
}

const field = ({
  id,
  label,
  hint,
  input,
}: {
  id: string;
  label: string;
  hint?: string;
  input: Html;
}): Html => html`<div class="login-field">
<label for="${id}">${label}</label>
${input}
${hint && html`<p class="login-lead" id="${id}-hint">${hint}</p>`}
</div>`;

const faultList = (faults: readonly string[]): Html | "" =>
  faults.length === 0
    ? ""
    : html`<div class="login-refusal" role="alert"><h2>Nothing was saved</h2>${faults.map((fault) => html`<p>${fault}</p>`)}</div>`;

const definitionFields = ({
  fields,
  receivers,
}: Pick<WatchPageParts, "fields" | "receivers">): Html => html`${field({
  id: "name",
  label: "Name",
  input: html`<input class="input" id="name" name="name" required maxlength="120" autocomplete="off" value="${fields.name}">`,
})}
${field({
  id: "filter",
  label: "Hosts",
  hint: "In the query language of the fleet page; empty for every host.",
  input: html`<input class="input" id="filter" name="filter" maxlength="4096" autocomplete="off" spellcheck="false" aria-describedby="filter-hint" value="${fields.filter}">`,
})}
${field({
  id: "more_than",
  label: "More than",
  input: html`<input class="input" id="more_than" name="more_than" type="number" required min="0" max="10000000" autocomplete="off" value="${fields.moreThan}">`,
})}
${field({
  id: "for",
  label: "For",
  hint: "How long, such as 90s, 10m or 2h; 0s for at once.",
  input: html`<input class="input" id="for" name="for" required pattern="[0-9]{1,9}[smhd]" autocomplete="off" aria-describedby="for-hint" value="${fields.for}">`,
})}
<fieldset class="login-field">
<legend>Send messages to</legend>
${
  receivers.length === 0
    ? html`<p class="login-lead">Core has no receiver: set SVC_WATCH_RECEIVERS_FILE. The watch shows on its page all the same.</p>`
    : receivers.map(
        (name) =>
          html`<label class="login-choice"><input type="checkbox" name="receiver.${name}"${fields.receivers.includes(name) ? html` checked` : ""}> ${name}</label>`,
      )
}
</fieldset>`;

/** Renders the form of a new watch. */
export const newWatchPage = (parts: WatchPageParts): Html => {
  const card = html`<h1>Watch these hosts</h1>
<p class="login-lead">Fires when more hosts match than you allow, for as long as you set.</p>
${faultList(parts.faults)}
<form class="login-form" method="post" action="${newWatchPath}">
${definitionFields(parts)}
<button class="button button-primary login-button">Create the watch</button>
<a class="button login-button" href="/watches">Show all watches</a>
</form>`;
  return cardPage({ title: "Watch these hosts", card, links: parts.links });
};

const silences = [
  [3600, "1 hour"],
  [14_400, "4 hours"],
  [86_400, "1 day"],
  [604_800, "7 days"],
] as const;

/** Renders the forms that change, silence, test and delete a watch. */
export const changeWatchPage = ({
  id,
  name,
  revision,
  silencedUntil,
  ...parts
}: WatchPageParts & {
  id: string;
  name: string;
  revision: number;
  silencedUntil: string | null;
}): Html => {
  const action = `${changeWatchPath}?id=${id}`;
  const card = html`<h1><bdi>${plainLine(name)}</bdi></h1>
${faultList(parts.faults)}
<form class="login-form" method="post" action="${action}" aria-labelledby="silence">
<h2 id="silence">Silence</h2>
<p class="login-lead">${silencedUntil ? `Silenced until ${silencedUntil.slice(0, 16).replace("T", " ")} UTC.` : "Until its end, no message says that the watch fires."}</p>
${field({
  id: "seconds",
  label: "For",
  input: html`<select class="input" id="seconds" name="seconds">${silences.map(([seconds, words]) => html`<option value="${seconds}">${words}</option>`)}${silencedUntil && html`<option value="0">End the silence now</option>`}</select>`,
})}
${field({ id: "reason", label: "Reason", input: html`<input class="input" id="reason" name="reason" maxlength="500" autocomplete="off">` })}
<button class="button login-button" name="action" value="silence">Silence</button>
</form>
<form class="login-form" method="post" action="${action}" aria-labelledby="definition">
<h2 id="definition">Change</h2>
<input type="hidden" name="revision" value="${revision}">
${definitionFields(parts)}
<button class="button button-primary login-button" name="action" value="save">Save</button>
</form>
<form class="login-form" method="post" action="${action}" aria-labelledby="test">
<h2 id="test">Test</h2>
<button class="button login-button" name="action" value="test">Send a test message</button>
</form>
<form class="login-form" method="post" action="${action}" aria-labelledby="delete">
<h2 id="delete">Delete</h2>
<label class="login-choice"><input type="checkbox" name="sure" required> Delete the watch and its history</label>
<button class="button login-button" name="action" value="delete">Delete</button>
</form>
<a class="button login-button" href="/watches/${id}">Back to the watch</a>`;
  return cardPage({ title: "Change a watch", card, links: parts.links });
};
