import { App, Input } from "antd";
import { useCallback, type ReactNode } from "react";
import { useT } from "@/i18n";

interface Question {
  title: string;
  text: ReactNode;
  action: string;
  isDanger?: boolean;
  /** The act needs a reason: the button stays closed without one. */
  isReasonNeeded?: boolean;
  run: (reason: string) => Promise<unknown>;
}

/** Asks before an act, says what it will do, and takes a reason. A failed act keeps the dialog and shows why. */
export function useReason(): (question: Question) => void {
  const t = useT();
  const { modal } = App.useApp();
  return useCallback(
    ({ title, text, action, isDanger = false, isReasonNeeded = true, run }) => {
      let reason = "";
      const isReady = () => !isReasonNeeded || reason.trim() !== "";
      const shown = modal.confirm({
        title,
        content: (
          <div className="stack tight">
            <div>{text}</div>
            {isReasonNeeded ? (
              <label className="stack tight" style={{ gap: 4 }}>
                {t("reason")}
                <Input.TextArea
                  maxLength={500}
                  rows={2}
                  onChange={({ target }) => {
                    reason = target.value;
                    shown.update({ okButtonProps: { danger: isDanger, disabled: !isReady() } });
                  }}
                />
              </label>
            ) : null}
          </div>
        ),
        okText: action,
        cancelText: t("cancel"),
        okButtonProps: { danger: isDanger, disabled: !isReady() },
        onOk: () => run(reason.trim()),
      });
    },
    [modal, t],
  );
}
