import {
  type Accessor,
  createContext,
  createEffect,
  createMemo,
  createSignal,
  type JSX,
  onCleanup,
  useContext,
} from "solid-js";
import { Session } from "#proto/operator/session.ts";
import { type ApiClient, ApiProblem, caughtProblem } from "../api/api-client.ts";
import { ShownReportsProvider } from "../api/live-report.tsx";
import { ageMs, createMoment, type Moment, readMoment } from "../browser/moment.ts";
import { createShortcutSwitch, type ShortcutSwitch } from "../browser/shortcuts.ts";
import { claimTab, readStoredText, storeText } from "../browser/stored-text.ts";
import { formatTimestamp, type TimeZone } from "../format/format.ts";

/**
 * The state of the page's session. `ended` keeps the session that was known, so that the page keeps what it shows; it becomes `known`
 * again once the same person has signed in elsewhere in this browser.
 */
type PageSession =
  | { status: "loading" }
  | { status: "known"; session: Session; since: Moment }
  | { status: "ended"; session: Session | undefined }
  | { status: "failed"; problem: ApiProblem };

const storageKey = "time-zone";

/** Returns the choice of the zone of absolute times: stored in this browser, UTC by default. Create one for a page. */
const createTimeZoneChoice = () => {
  const [zone, setZone] = createSignal<TimeZone>(
    readStoredText(storageKey) === "local" ? "local" : "utc",
  );
  return {
    zone,
    choose(next: TimeZone): void {
      setZone(next);
      storeText(storageKey, next);
    },
    /** Writes a time in this zone. */
    text: (at: string | number): string => formatTimestamp(at, zone()),
  };
};

/** The dependencies of every page. */
export interface PageContext {
  api: ApiClient;
  state: Accessor<PageSession>;
  /** The session, once it is known; it stays after its end. */
  session: Accessor<Session | undefined>;
  /** Seconds until the session ends; undefined while it is not known. */
  secondsLeft: Accessor<number | undefined>;
  /** Whether the operator uses single-key shortcuts. */
  shortcuts: ShortcutSwitch;
  /** The zone in which every page writes absolute times. */
  times: ReturnType<typeof createTimeZoneChoice>;
  /** Returns core's time, in milliseconds; of signals, it tracks alone whether core has answered. */
  coreNow(): number;
  /** Requests the session again. */
  reloadSession(): Promise<void>;
}

const Context = createContext<PageContext>();

const retryMs = 5_000;

const sessionEnded = (requestId?: string) =>
  new ApiProblem({
    code: "unauthenticated",
    status: 401,
    message: "Your session has ended",
    requestId,
  });

/**
 * Provides the API and the session, which it reloads whenever the page comes back into view, and every five seconds until it is known.
 * A response 401 to any request, or the time of its end, ends the session: requests then fail without being sent. A 403 reloads it, because the
 * scopes have changed.
 */
export const PageContextProvider = (props: { api: ApiClient; children: JSX.Element }) => {
  const [state, setState] = createSignal<PageSession>({ status: "loading" });
  const [isAnswered, setAnswered] = createSignal(false);
  const now = createMoment();
  const session = createMemo(() => {
    const current = state();
    return current.status === "known" || current.status === "ended" ? current.session : undefined;
  });
  const secondsLeft = createMemo(() => {
    const current = state();
    if (current.status !== "known") return undefined;
    return current.session.expires_in_seconds - Math.floor(ageMs(current.since, now()) / 1000);
  });
  const end = () => setState({ status: "ended", session: session() });
  const watched = async <Answer,>(send: () => Promise<Answer>): Promise<Answer> => {
    if (state().status === "ended") throw sessionEnded();
    try {
      return await send();
    } catch (error) {
      const { status, requestId } = caughtProblem(error);
      if (status === 403) void reloadSession();
      if (status !== 401) throw error;
      end();
      throw sessionEnded(requestId);
    }
  };
  const api: ApiClient = {
    get: async (...request) => {
      const answer = await watched(() => props.api.get(...request));
      setAnswered(true);
      return answer;
    },
    send: (...request) => watched(() => props.api.send(...request)),
    timeAt: (moment) => props.api.timeAt(moment),
  };
  let retry: ReturnType<typeof setTimeout> | undefined;
  const reloadSession = async () => {
    clearTimeout(retry);
    const since = readMoment();
    try {
      const found = await props.api.get("/api/session", Session);
      // Another person has signed in: nothing of the previous one's may stay.
      if ((session()?.user.user_id ?? found.user.user_id) !== found.user.user_id) location.reload();
      else {
        claimTab(found.user.user_id);
        setState({ status: "known", session: found, since });
      }
    } catch (error) {
      const problem = caughtProblem(error);
      if (problem.status === 401) end();
      // A known session stays while the server is unavailable: the pages report that themselves.
      else if (session() === undefined) {
        setState({ status: "failed", problem });
        retry = setTimeout(() => void reloadSession(), retryMs);
      }
    }
  };
  const reloadInView = () => document.visibilityState === "visible" && void reloadSession();
  document.addEventListener("visibilitychange", reloadInView);
  onCleanup(() => {
    document.removeEventListener("visibilitychange", reloadInView);
    clearTimeout(retry);
  });
  createEffect(() => {
    if ((secondsLeft() ?? 1) > 0) return;
    end();
    // This machine's clocks may be ahead: web decides.
    void reloadSession();
  });
  void reloadSession();
  const context = {
    api,
    state,
    session,
    secondsLeft,
    shortcuts: createShortcutSwitch(),
    times: createTimeZoneChoice(),
    coreNow: () => {
      isAnswered();
      return api.timeAt(readMoment());
    },
    reloadSession,
  };
  return (
    <Context.Provider value={context}>
      <ShownReportsProvider api={context.api}>{props.children}</ShownReportsProvider>
    </Context.Provider>
  );
};

/** Returns the context of the page; throws outside its provider. */
export const usePageContext = (): PageContext => {
  const context = useContext(Context);
  if (context === undefined) throw new Error("outside PageContextProvider");
  return context;
};

/** Reports whether the operator may use chat: it is on, and the scope is held. */
export const canAsk = (session: Session | undefined): boolean =>
  session?.chat_enabled === true && session.scopes.includes("audit");
