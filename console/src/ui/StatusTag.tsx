import { label } from "@/api/dictionaries";
import { useLanguage, valueText } from "@/i18n";

const STYLES: Record<string, string> = { COMPLETED: "good", PARTIAL: "warn", FAILED: "bad", TIMEOUT: "bad", CANCELLED: "", PROCESSING: "live", QUEUED: "live", PENDING: "" };

export function StatusTag({ status }: { status: string }) {
  const language = useLanguage();
  return (
    <span className={`tag ${STYLES[status] ?? ""}`}>
      <span className="dot" aria-hidden="true" />
      {label("task_states", status, language) ?? valueText("status", status)}
    </span>
  );
}
