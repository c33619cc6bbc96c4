import { Route, Router } from "@solidjs/router";
import { createApi } from "./api/api.ts";
import { fetchAhead } from "./api/fetch-ahead.ts";
import { FleetPage } from "./fleet/fleet-page.tsx";
import { parseView, reportPath } from "./fleet/view/view-state.ts";
import { HomePage } from "./home/home-page.tsx";
import { SurroundingsProvider } from "./session/session-context.tsx";
import { NoSuchPage } from "./shell/no-such-page.tsx";
import { Shell } from "./shell/shell.tsx";

/** The session decides what is shown, and the report takes longer: neither waits for the other. */
const pathsAhead = (): string[] => (location.pathname === "/fleet" ? [reportPath(parseView(location.search))] : []);

/** The pages at their paths. */
export const App = () => {
  const api = createApi({ fetch: fetchAhead((...request) => fetch(...request), pathsAhead()) });
  return (
    <SurroundingsProvider api={api}>
      <Router root={Shell}>
        <Route path="/" component={HomePage} />
        <Route path="/fleet" component={FleetPage} />
        <Route path="*" component={NoSuchPage} />
      </Router>
    </SurroundingsProvider>
  );
};
