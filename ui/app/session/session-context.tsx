import { type Accessor, createContext, createSignal, type JSX, onCleanup, useContext } from "solid-js";
import type { Session } from "../../../proto/operator/session.ts";
import type { Api } from "../api/api.ts";
import { ApiProblem } from "../api/problem.ts";
import { fetchSession } from "./session.ts";

/** What is known of the session. `ended` is final for the page: only signing in, which leaves it, changes it. */
export type SessionState =
  | { status: "loading" }
  | { status: "known"; session: Session }
  | { status: "ended" }
  | { status: "failed"; problem: ApiProblem };

/** What every page has at hand. */
export interface Surroundings {
  api: Api;
  session: Accessor<SessionState>;
  /** The session when it is known. */
  known: Accessor<Session | undefined>;
  /** Asks again who is signed in. */
  reloadSession(): Promise<void>;
}

const Context = createContext<Surroundings>();

/**
 * Loads the session, again whenever the page comes back into view, and gives it with the API to what it contains. An answer 401 to
 * any request ends the session; after a 403 what the person holds is asked again, since it has changed.
 */
export const SurroundingsProvider = (props: { api: Api; children: JSX.Element }) => {
  const [session, setSession] = createSignal<SessionState>({ status: "loading" });
  const known = () => {
    const state = session();
    return state.status === "known" ? state.session : undefined;
  };
  const api: Api = {
    get: async (path, schema, signal) => {
      try {
        return await props.api.get(path, schema, signal);
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 401) setSession({ status: "ended" });
        if (error instanceof ApiProblem && error.status === 403) void reloadSession();
        throw error;
      }
    },
  };
  const reloadSession = async (): Promise<void> => {
    try {
      setSession({ status: "known", session: await fetchSession(api) });
    } catch (problem) {
      // Who was known stays so while the server is away: the pages say that themselves.
      if (problem instanceof ApiProblem && session().status !== "ended" && known() === undefined)
        setSession({ status: "failed", problem });
    }
  };
  const reloadInView = () => {
    if (document.visibilityState === "visible" && session().status !== "ended") void reloadSession();
  };
  document.addEventListener("visibilitychange", reloadInView);
  onCleanup(() => document.removeEventListener("visibilitychange", reloadInView));
  void reloadSession();
  return <Context.Provider value={{ api, session, known, reloadSession }}>{props.children}</Context.Provider>;
};

/** The surroundings; throws outside the provider. */
export const useSurroundings = (): Surroundings => {
  const surroundings = useContext(Context);
  if (surroundings === undefined) throw new Error("outside SurroundingsProvider");
  return surroundings;
};
