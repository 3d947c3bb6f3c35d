"""What a GCM needs beyond its program where z is one of several networks."""

from __future__ import annotations

from typing import Any

from pyro_gcm.models.member_settings import MemberSettings, searches_for, warn_of_few
from pyro_gcm.models.time_predictions import TimePredictions
from pyro_gcm.nets import MemberEncoder
from pyro_gcm.training import TrainingDefaults


class WithMembers(TimePredictions):
    """A model whose z may be a member: how it is trained, and the guide that sums over members."""

    #: p(z) of the members, by name.
    member_weights: str

    @property
    def default_objective(self) -> str:
        """ "conditional", or for members with equal weights "members"."""
        equal = bool(self.encoder.members) and self.member_weights == "uniform"
        return "members" if equal else "conditional"

    def training_defaults(self, rows: int) -> TrainingDefaults:
        """Options of `fit` where they are left out; those of members depend on the table."""
        if not self.encoder.members:
            return super().training_defaults(rows)
        settings, searches = self._settings(rows), searches_for(rows)
        return settings.training(self)._replace(searches=searches)

    def adapt(self, rows: int, *, epochs: int | None) -> None:
        """As `OrderEventModel.adapt`: the dropout of members, where none was named."""
        if isinstance(self.encoder, MemberEncoder):
            if epochs is None:
                warn_of_few(rows)
            self.encoder.choose_dropout(self._settings(rows).dropout)

    def _settings(self, rows: int) -> MemberSettings:
        censored = self.response.is_censored
        settings = MemberSettings.for_times if censored else MemberSettings.for_table
        return settings(rows, self.x_dim, self.r_dim)

    def response_model(self, name: str) -> Any:
        """This model with one of `responses.Several` responses, for its predictions.

        It shares all weights with this one, and predicts; it is neither trained nor saved.

        :param name: of the response.
        :raises ValueError: for another name, and for a model with one response.
        """
        if self.response.copies == 1:
            raise ValueError("response_model needs a model of responses.Several responses")
        return self.response.model_of(self, name)
