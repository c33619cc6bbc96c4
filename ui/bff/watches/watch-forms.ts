import { html } from "hono/html";
import * as v from "valibot";
import type { Clock } from "#kit/clock.ts";
import { parseDuration, writeDuration } from "#proto/fleet-health/query-language/duration.ts";
import { parseFilterLink } from "#proto/fleet-health/query-language/filter-link.ts";
import { serialiseFilter } from "#proto/fleet-health/query-language/parse.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { plainLine } from "#proto/plain-text.ts";
import type { CoreClient } from "../core-client.ts";
import { cardPage, type Html, type PageLinks } from "../page-frame.ts";
import { WebProblem } from "../problems.ts";
import { type AskPerson, callCore, outcomePage, type PersonOfPage } from "../programs/consent.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";

/** The address of the form of a new watch. */
export const newWatchPath = "/watches/new";
/** The address of the forms that change a watch. */
export const changeWatchPath = "/watches/change";

/** The fields of the definition of a watch, as typed. */
interface WatchFields {
  name: string;
  filter: string;
  moreThan: string;
  for: string;
  receivers: readonly string[];
}

/** The parts of a watch's page beside its fields. */
interface WatchPageParts {
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
const newWatchPage = (parts: WatchPageParts): Html => {
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
const changeWatchPage = ({
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

// The members of core's responses that the pages show; a newer core may add fields.
const Receivers = v.object({ receivers: v.array(v.object({ name: v.string() })) });
const Definition = v.object({
  id: v.string(),
  name: v.string(),
  filter: v.string(),
  more_than: v.number(),
  for_seconds: v.number(),
  receivers: v.array(v.string()),
  revision: v.number(),
  silence: v.nullable(v.object({ until: v.string() })),
});
const Refusal = v.object({
  code: v.string(),
  detail: v.string(),
  errors: v.optional(v.array(v.object({ path: v.string(), message: v.string() })), []),
});

/** The pages of watches, and the handlers of their forms. */
interface WatchForms {
  askNew: Handler;
  create: Handler;
  askChange: Handler;
  change: Handler;
}

/** Why nothing was changed. `isStale`: another change came first. */
interface Faults {
  faults: readonly string[];
  isStale?: boolean;
}

/** A call of core that changes a watch. */
interface WatchCall {
  method: "POST" | "PUT" | "DELETE";
  path: string;
  json?: object;
}

type Then = (person: PersonOfPage) => Promise<Response>;
type Form = Readonly<Record<string, string>>;

/** Creates the pages on which an admin makes and changes watches. They need no JavaScript. */
export const createWatchForms = ({
  core,
  askPerson,
  links,
  clock,
}: {
  core: CoreClient;
  askPerson: AskPerson;
  links: PageLinks;
  clock: Pick<Clock, "now">;
}): WatchForms => {
  const asAdmin = (c: WebContext, returnTo: string, then: Then) =>
    askPerson(c, { returnTo, needsFresh: false }, async (person) =>
      person.scopes.includes("admin")
        ? then(person)
        : c.html(outcomePage({ ...needsAdmin, isFault: true, links }), 403),
    );

  const receiversOf = async (c: WebContext, { session }: PersonOfPage): Promise<string[]> => {
    const path = "/collector/watches?limit=1";
    const found = v.parse(Receivers, await callCore(core, c, { path, session }));
    return found.receivers.map(({ name }) => name);
  };

  /** Calls core. Returns its response, or the faults for which core rejected the form. */
  const attempt = async (
    c: WebContext,
    { session }: PersonOfPage,
    call: WatchCall,
  ): Promise<Faults | { answer: unknown }> => {
    const response = await core.call({ ...call, as: session, requestId: c.get("requestId") });
    if (response.ok) return { answer: response.status === 204 ? undefined : await response.json() };
    if (response.status === 401)
      throw new WebProblem("unauthenticated", { detail: "Sign in again" });
    const refusal = v.safeParse(Refusal, await response.json().catch(() => undefined));
    if (!refusal.success || response.status >= 500)
      throw new WebProblem("core_unavailable", {
        detail: `Core answered with status ${response.status}`,
      });
    const { code, detail, errors } = refusal.output;
    const faults = errors.map(({ path, message }) => `${labelOf(path)}: ${message}`);
    return {
      faults: faults.length === 0 ? [detail] : faults,
      isStale: code === ("conflict" satisfies CoreProblemCode),
    };
  };

  const showChange = async (
    c: WebContext,
    person: PersonOfPage,
    { faults, isStale = false, form }: Faults & { form?: Form },
  ) => {
    const id = idOf(c);
    const found = await callCore(core, c, {
      path: `/collector/watches/${id}`,
      session: person.session,
    });
    if (found === null) return c.html(outcomePage({ ...noSuchWatch, isFault: true, links }), 404);
    const watch = v.parse(Definition, found);
    const page = changeWatchPage({
      id,
      name: watch.name,
      revision: watch.revision,
      silencedUntil: watch.silence?.until ?? null,
      faults,
      links,
      fields: form?.action === "save" && !isStale ? fieldsOf(form) : fieldsOfWatch(watch),
      receivers: await receiversOf(c, person),
    });
    return c.html(page, faults.length === 0 ? 200 : 422);
  };

  return {
    askNew: (c) => {
      const { search } = new URL(c.req.url);
      return asAdmin(c, `${newWatchPath}${search}`, async (person) => {
        const { filter } = parseFilterLink(queryOf(c), []);
        const text = serialiseFilter(filter, new Date(clock.now()));
        const fields = {
          name: text.slice(0, 120),
          filter: text,
          moreThan: "0",
          for: "10m",
          receivers: [],
        };
        return c.html(
          newWatchPage({ fields, receivers: await receiversOf(c, person), faults: [], links }),
        );
      });
    },
    create: (c) =>
      asAdmin(c, newWatchPath, async (person) => {
        const fields = fieldsOf(await readForm(c));
        const parsed = definitionOf(fields);
        const made =
          "faults" in parsed
            ? parsed
            : await attempt(c, person, { method: "POST", path: "/collector/watches", ...parsed });
        if ("answer" in made)
          return c.redirect(`/watches/${v.parse(Definition, made.answer).id}`, 303);
        const receivers = await receiversOf(c, person);
        return c.html(newWatchPage({ fields, receivers, faults: made.faults, links }), 422);
      }),
    askChange: (c) =>
      asAdmin(c, `${changeWatchPath}?id=${idOf(c)}`, (person) =>
        showChange(c, person, { faults: [] }),
      ),
    change: (c) =>
      asAdmin(c, `${changeWatchPath}?id=${idOf(c)}`, async (person) => {
        const form = await readForm(c);
        const call = callOf(idOf(c), form);
        const made = "faults" in call ? call : await attempt(c, person, call);
        if ("faults" in made) return showChange(c, person, { ...made, form });
        return c.redirect(form.action === "delete" ? "/watches" : `/watches/${idOf(c)}`, 303);
      }),
  };
};

const needsAdmin = {
  title: "This needs the scope admin",
  text: "Ask an administrator to watch these hosts for you.",
};
const noSuchWatch = { title: "There is no such watch", text: "Somebody has deleted it." };

const noId = "00000000-0000-0000-0000-000000000000";

/** Returns the id in the query, or one that no watch has. */
const idOf = (c: WebContext): string => {
  const id = queryOf(c).get("id") ?? "";
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id) ? id : noId;
};

const fieldsOf = (form: Form): WatchFields => ({
  name: form.name ?? "",
  filter: form.filter ?? "",
  moreThan: form.more_than ?? "",
  for: form.for ?? "",
  receivers: Object.keys(form).flatMap((name) =>
    name.startsWith("receiver.") ? [name.slice("receiver.".length)] : [],
  ),
});

const fieldsOfWatch = (watch: v.InferOutput<typeof Definition>): WatchFields => ({
  name: watch.name,
  filter: watch.filter,
  moreThan: String(watch.more_than),
  for: writeDuration(watch.for_seconds),
  receivers: watch.receivers,
});

const definitionOf = (fields: WatchFields): Faults | { json: object } => {
  const seconds = parseDuration(fields.for);
  const faults = [
    ...(/^\d{1,8}$/.test(fields.moreThan) ? [] : ["More than: must be a whole number"]),
    ...(seconds === undefined ? ["For: must be a whole number and s, m, h or d, such as 10m"] : []),
  ];
  if (faults.length > 0) return { faults };
  const { name, filter, receivers } = fields;
  return {
    json: { name, filter, more_than: Number(fields.moreThan), for_seconds: seconds, receivers },
  };
};

/** Returns the call of core for a form of a watch's page. */
const callOf = (id: string, form: Form): Faults | WatchCall => {
  const path = `/collector/watches/${id}`;
  switch (form.action) {
    case "silence": {
      const json = {
        seconds: Number(form.seconds),
        ...(form.reason ? { reason: form.reason } : {}),
      };
      return { method: "POST", path: `${path}/silence`, json };
    }
    case "test":
      return { method: "POST", path: `${path}/test` };
    case "delete":
      return form.sure === undefined
        ? { faults: ["Confirm that the watch is to be deleted"] }
        : { method: "DELETE", path };
    default: {
      const parsed = definitionOf(fieldsOf(form));
      if ("faults" in parsed) return parsed;
      return { method: "PUT", path, json: { ...parsed.json, revision: Number(form.revision) } };
    }
  }
};

const labels: Readonly<Record<string, string>> = {
  name: "Name",
  filter: "Hosts",
  more_than: "More than",
  for_seconds: "For",
  seconds: "For",
  reason: "Reason",
};

const labelOf = (path: string) =>
  labels[path] ?? (path.startsWith("receivers") ? "Send messages to" : path);
