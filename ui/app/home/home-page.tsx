import { Show } from "solid-js";
import { useSurroundings } from "../session/session-context.tsx";
import { DirectoryPanel } from "./directory-panel.tsx";
import { FleetStrip } from "./fleet-strip.tsx";
import { ScopeRows } from "./scope-rows.tsx";

/** `/`: who you are, what you may do, and where to go. */
export const HomePage = () => {
  const { known } = useSurroundings();
  return (
    <Show when={known()}>
      {(session) => (
        <div class="home">
          <header>
            <h1>{session().user.display_name || session().user.email}</h1>
            <p class="home-lead">
              Signed in as {session().user.email} through {session().provider_name}
            </p>
          </header>
          <Show when={session().scopes.includes("audit")}>
            <FleetStrip />
          </Show>
          <section class="panel" aria-labelledby="home-scopes">
            <h2 id="home-scopes">Your scopes</h2>
            <ScopeRows held={session().scopes} />
            <p class="home-lead">They follow your directory groups, and change with the next sync of the directory.</p>
          </section>
          <DirectoryPanel />
        </div>
      )}
    </Show>
  );
};
