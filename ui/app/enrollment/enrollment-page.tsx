import { RecentEvents } from "../audit/recent-events.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "../design/page.css";

/** `/enrollment`: the enrollment policies that were created, newest first. */
export const EnrollmentPage = () => {
  createPageTitle(() => "Enrollment");
  return (
    <div class="page">
      <h1>Enrollment</h1>
      <RecentEvents action="enrollment_policy.create" />
    </div>
  );
};
