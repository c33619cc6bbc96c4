import { type Accessor, createContext, createSignal, type JSX, onCleanup, useContext } from "solid-js";
import { Session } from "../../../proto/operator/session.ts";
import { type ApiClient, ApiProblem } from "../api/api-client.ts";
import { createShortcutSwitch, type ShortcutSwitch } from "../browser/shortcuts.ts";

/** The state of the page's session. `ended` is final: only signing in, which leaves the page, changes it. */
export type PageSession =
  | { status: "loading" }
  | { status: "known"; session: Session }
  | { status: "ended" }
  | { status: "failed"; problem: ApiProblem };

/** The dependencies of every page. */
export interface PageContext {
  api: ApiClient;
  state: Accessor<PageSession>;
  /** The session, once it is known. */
  session: Accessor<Session | undefined>;
  /** Whether the operator uses single-key shortcuts. */
  shortcuts: ShortcutSwitch;
  /** Requests the session again. */
  reloadSession(): Promise<void>;
}

const Context = createContext<PageContext>();

/**
 * Provides the API and the session, which it reloads whenever the page comes back into view. An answer 401 to any request ends the
 * session; a 403 reloads it, because the scopes have changed.
 */
export const PageContextProvider = (props: { api: ApiClient; children: JSX.Element }) => {
  const [state, setState] = createSignal<PageSession>({ status: "loading" });
  const session = () => {
    const current = state();
    return current.status === "known" ? current.session : undefined;
  };
  const watched = async <Answer,>(answer: Promise<Answer>): Promise<Answer> => {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 401) setState({ status: "ended" });
      if (error instanceof ApiProblem && error.status === 403) void reloadSession();
      throw error;
    }
  };
  const api: ApiClient = {
    get: (...request) => watched(props.api.get(...request)),
    send: (...request) => watched(props.api.send(...request)),
  };
  const reloadSession = async (): Promise<void> => {
    try {
      setState({ status: "known", session: await api.get("/api/session", Session) });
    } catch (problem) {
      // A known session stays while the server is unavailable: the pages report that themselves.
      if (problem instanceof ApiProblem && state().status !== "ended" && session() === undefined)
        setState({ status: "failed", problem });
    }
  };
  const reloadInView = () => {
    if (document.visibilityState === "visible" && state().status !== "ended") void reloadSession();
  };
  document.addEventListener("visibilitychange", reloadInView);
  onCleanup(() => document.removeEventListener("visibilitychange", reloadInView));
  void reloadSession();
  const context = { api, state, session, shortcuts: createShortcutSwitch(), reloadSession };
  return <Context.Provider value={context}>{props.children}</Context.Provider>;
};

/** Returns the context of the page; throws outside its provider. */
export const usePageContext = (): PageContext => {
  const context = useContext(Context);
  if (context === undefined) throw new Error("outside PageContextProvider");
  return context;
};

/** Returns whether the operator may use chat: it is on, and the scope is held. */
export const canAsk = (session: Session | undefined): boolean =>
  session?.chat_enabled === true && session.scopes.includes("audit");
