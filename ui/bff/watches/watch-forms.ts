import * as v from "valibot";
import type { Clock } from "../../../kit/clock.ts";
import {
  parseDuration,
  writeDuration,
} from "../../../proto/fleet-health/query-language/duration.ts";
import { parseFilterLink } from "../../../proto/fleet-health/query-language/filter-link.ts";
import { serialiseFilter } from "../../../proto/fleet-health/query-language/serialise.ts";
import type { CoreClient } from "../core-client.ts";
import type { PageLinks } from "../page-frame.ts";
import { WebProblem } from "../problems.ts";
import { type AskPerson, callCore, type PersonOfPage } from "../programs/ask-person.ts";
import { outcomePage } from "../programs/consent-pages.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import {
  changeWatchPage,
  changeWatchPath,
  newWatchPage,
  newWatchPath,
  type WatchFields,
} from "./watch-pages.ts";

// Of core's responses, what the pages show; a newer core may add fields.
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

/** The forms of watches: each has a page, and what its form does. */
export interface WatchForms {
  askNew: Handler;
  create: Handler;
  askChange: Handler;
  change: Handler;
}

/** Why nothing was changed; `isStale`: another change came first. */
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

  /** Calls core, and returns its answer, or why it refuses. */
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
    return { faults: faults.length === 0 ? [detail] : faults, isStale: code === "conflict" };
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

/** The id in an address; one that is none finds nothing. */
const idOf = (c: WebContext): string =>
  /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.exec(queryOf(c).get("id") ?? "")?.[0] ??
  "00000000-0000-0000-0000-000000000000";

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

/** Returns the call of core that a form of the page of a watch means. */
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

const labelOf = (path: string): string =>
  labels[path] ?? (path.startsWith("receivers") ? "Send messages to" : path);
