import { createPageTitle } from "../shell/page-title.ts";
import { RecentEvents } from "./recent-events.tsx";
import "../design/page.css";

/** `/audit`: the audit log, newest first. */
export const AuditPage = () => {
  createPageTitle(() => "Audit");
  return (
    <div class="page">
      <h1>Audit</h1>
      <RecentEvents />
    </div>
  );
};
